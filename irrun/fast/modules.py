"""Which modules of `irrun.fast` specialize which operations."""

from __future__ import annotations

__all__ = ["MODULES"]

#: Operation type -> module. A test compares the table with what the modules register.
MODULES: dict[str, str] = {
    "Add": "elementwise",
    "Subtract": "elementwise",
    "Multiply": "elementwise",
    "LSTMCell": "recurrent",
    "GRUCell": "recurrent",
    "RNNCell": "recurrent",
    "LSTMSequence": "recurrent",
    "GRUSequence": "recurrent",
    "RNNSequence": "recurrent",
    "GatherTree": "gather_tree",
}
