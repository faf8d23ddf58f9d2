"""Print the most likely ISO dates for a text: python translate.py may 3rd, 26"""

import sys
from pathlib import Path

import numpy as np
from lxml import etree

import irrun

path = Path(__file__).with_name("model.xml")
vocabulary = etree.parse(path).find("rt_info/date_translation/vocabulary").get("value")

text = " ".join(sys.argv[1:]) or input("Date: ")
codes = np.frombuffer(text.encode("ascii", "replace"), np.uint8).astype(np.int32)
outputs = irrun.compile_model(path)({"text": codes[None]})

for beam, score in zip(outputs["beams"][0], outputs["scores"][0], strict=True):
    date = "".join(vocabulary[token] for token in beam if token < len(vocabulary))
    print(f"{date}  {np.exp(score):6.2%}")
