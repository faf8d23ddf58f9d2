// What the report page uses of its libraries. `build.js` bundles it as the global `vendor`.
export { graphlib, layout } from "@dagrejs/dagre";
export { select } from "d3-selection";
export { zoom, zoomIdentity } from "d3-zoom";
