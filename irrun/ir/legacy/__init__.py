"""IR v2 to v7 (2018 to 2020), read as the Model that IR v10 and v11 give.

What a file of those years says in its own way becomes operations of today's numbered opsets, so that nothing else
knows about old files: `Input` layers become Parameters, `<blobs>` become Constants, every port that nobody reads
leads into a Result, `<pre-process>` becomes a Subtract and a Divide, the ends of a body's port map get Parameters
and Results of their own. `statistics` and `quantization_parameters` are left out.

Numbers. The CPU plugins of those years computed FP16 networks in FP32. So does what this reader makes: an FP16
input is an f32 Parameter, FP16 weights are an f16 Constant with a Convert to f32 behind it, and every port of
precision FP16 carries f32. I32, I64, U8 and other integers keep their types.

Sizes. Old files state the shape of every port; where an attribute does not decide a size (rounding of a pooling,
the target of a resize), the declared shape does.

A layer whose type has no conversion stays a layer of that type, of version "legacy", with its ports: it can be
inspected, and running it is refused with the names of all such types.
"""

from __future__ import annotations

from irrun.ir.legacy.reader import read_legacy

__all__ = ["read_legacy"]
