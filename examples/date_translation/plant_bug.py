"""Write broken.xml, a copy of the model with the bug of an exporter, for the tutorial in docs/inspection.md.

PyTorch stores the gates of an LSTM in the order input, forget, cell, output, and OpenVINO in the order forget, input,
cell, output. An exporter must reorder all weights. This one forgets the recurrent weights of the decoder.
"""

import sys
from pathlib import Path

import numpy as np

import irrun
from irrun.ir.constant import Constant

model = irrun.read_model(Path(__file__).with_name("model.xml"))
body = next(layer for layer in model.graph.layers if layer.name == "beam_search").bodies["body"]
layer = next(layer for layer in body.graph.layers if layer.name == "Const_18")
forget, input_, cell, output = np.split(layer.constant.to_array(), 4)
layer.constant = Constant.from_array(np.concatenate([input_, forget, cell, output]), layer.constant.element_type)
irrun.save_model(model, sys.argv[1] if len(sys.argv) > 1 else "broken.xml")
