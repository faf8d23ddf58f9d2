"""Write model.xml, which contains a layer of the custom type `Checkerboard` of the opset "extension"."""

from pathlib import Path

MODEL = """<?xml version="1.0"?>
<net name="custom_operation" version="11">
	<layers>
		<layer id="0" name="x" type="Parameter" version="opset1">
			<data shape="?,?" element_type="f32"/>
			<output>
				<port id="0" precision="FP32" names="x"><dim>-1</dim><dim>-1</dim></port>
			</output>
		</layer>
		<layer id="1" name="board" type="Checkerboard" version="extension">
			<data period="2" fill="-1.0"/>
			<input>
				<port id="0" precision="FP32"><dim>-1</dim><dim>-1</dim></port>
			</input>
			<output>
				<port id="1" precision="FP32" names="board"><dim>-1</dim><dim>-1</dim></port>
			</output>
		</layer>
		<layer id="2" name="result" type="Result" version="opset1">
			<input>
				<port id="0" precision="FP32"><dim>-1</dim><dim>-1</dim></port>
			</input>
		</layer>
	</layers>
	<edges>
		<edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
		<edge from-layer="1" from-port="1" to-layer="2" to-port="0"/>
	</edges>
</net>
"""

Path(__file__).with_name("model.xml").write_text(MODEL, encoding="utf-8")
