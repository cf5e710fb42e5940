"""Values as Flink prints them: Java's way where a type is declared, Python's `str` where none is."""
import math

from flott.common.typeinfo import PickledBytesTypeInfo, RowTypeInfo, TupleTypeInfo, Types

LINE = Types.STRING()


class Formatter:
    """Turns values of a type into lines."""

    def __init__(self, type_info):
        self._type = type_info

    def map(self, value):
        """The line of a value."""
        return _text(value, self._type)


def _text(value, of):
    if isinstance(of, PickledBytesTypeInfo):
        return str(value)
    if value is None:
        return "null"
    if isinstance(of, TupleTypeInfo):
        return f"({','.join(_text(v, t) for v, t in zip(value, of.get_field_types()))})"
    if isinstance(of, RowTypeInfo):
        kind = value.get_row_kind() if hasattr(value, "get_row_kind") else "+I"
        fields = value._values if hasattr(value, "_values") else value
        return f"{kind}[{', '.join(_text(v, t) for v, t in zip(fields, of.get_field_types()))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _java_double(value)
    return str(value)


def _java_double(value):
    """`Double.toString`: plain between 1e-3 and 1e7, else like 1.0E10."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    text = repr(value)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return text
    sign, digits = ("-", text[1:]) if text[0] == "-" else ("", text)
    mantissa, _, exponent = digits.partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    power = int(exponent or 0) + len(whole) - 1
    all_digits = whole + fraction
    significant = all_digits.lstrip("0")
    power -= len(all_digits) - len(significant)
    significant = significant.rstrip("0") or "0"
    return f"{sign}{significant[0]}.{significant[1:] or '0'}E{power}"
