"""Sources and sinks."""
from flott.datastream.connectors.number_seq import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
