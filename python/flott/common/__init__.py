"""What DataStream programs and SQL share: types of values, rows, event time."""
from flott.common.typeinfo import TypeInformation, Types
from flott.common.types import Row, RowKind
from flott.common.watermark_strategy import WatermarkStrategy

__all__ = ["Row", "RowKind", "TypeInformation", "Types", "WatermarkStrategy"]
