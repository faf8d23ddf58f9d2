"""Operations of OpenVINO Tokenizers, in the opset "extension".

Strings are three inputs: where each string begins and where it ends in the text, i32 of any shape, and the text in
UTF-8, u8 [bytes]. Ragged strings are five: where each row begins and where it ends among the strings, and the strings.
"""
