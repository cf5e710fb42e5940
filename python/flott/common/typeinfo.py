"""Types of the values of a stream: `Types`."""
import json


class TypeInformation:
    """The type of a value. Made by `Types`."""

    def _to_engine(self):
        """As the engine reads it, in JSON's terms."""
        raise NotImplementedError(f"{type(self).__name__} is no type of a stream")

    def _to_json(self):
        return json.dumps(self._to_engine())

    def __eq__(self, other):
        return isinstance(other, TypeInformation) and self._to_engine() == other._to_engine()

    def __hash__(self):
        return hash(self._to_json())


class BasicTypeInfo(TypeInformation):
    """A number, a string or a truth value."""

    def __init__(self, engine_name, name):
        self._engine_name, self._name = engine_name, name

    def _to_engine(self):
        return self._engine_name

    def __repr__(self):
        return self._name


class PickledBytesTypeInfo(TypeInformation):
    """Any object of Python's."""

    def _to_engine(self):
        return "Pickled"

    def __repr__(self):
        return "PickledByteArrayTypeInfo"


class TupleTypeInfo(TypeInformation):
    """A tuple with a type for each field."""

    def __init__(self, field_types):
        self._field_types = list(field_types)

    def get_field_types(self):
        """Types of the fields."""
        return self._field_types

    def _to_engine(self):
        return {"Tuple": [t._to_engine() for t in self._field_types]}

    def __repr__(self):
        return f"TupleTypeInfo({', '.join(map(str, self._field_types))})"


class RowTypeInfo(TypeInformation):
    """A row with a name and a type for each field; without names they are f0, f1, …"""

    def __init__(self, field_types, field_names=None):
        self._field_types = list(field_types)
        self._field_names = [f"f{i}" for i in range(len(self._field_types))] if field_names is None else list(field_names)
        if len(self._field_names) != len(self._field_types):
            raise ValueError(f"expected a name for each of {len(self._field_types)} fields, found {self._field_names}")

    def get_field_names(self):
        """Names of the fields."""
        return self._field_names

    def get_field_types(self):
        """Types of the fields."""
        return self._field_types

    def _to_engine(self):
        return {"Row": [[name, t._to_engine()] for name, t in zip(self._field_names, self._field_types)]}

    def __repr__(self):
        fields = zip(self._field_names, self._field_types)
        return f"RowTypeInfo({', '.join(f'{name}: {t}' for name, t in fields)})"


class Types:
    """Makes types.

    >>> Types.TUPLE([Types.STRING(), Types.INT()])
    TupleTypeInfo(String, Integer)
    """

    @staticmethod
    def STRING():
        """`str`."""
        return BasicTypeInfo("String", "String")

    @staticmethod
    def BOOLEAN():
        """`bool`."""
        return BasicTypeInfo("Boolean", "Boolean")

    @staticmethod
    def BYTE():
        """`int` from -128 to 127."""
        return BasicTypeInfo("Byte", "Byte")

    @staticmethod
    def SHORT():
        """`int` of 16 bits."""
        return BasicTypeInfo("Short", "Short")

    @staticmethod
    def INT():
        """`int` of 32 bits."""
        return BasicTypeInfo("Int", "Integer")

    @staticmethod
    def LONG():
        """`int` of 64 bits."""
        return BasicTypeInfo("Long", "Long")

    @staticmethod
    def FLOAT():
        """`float`, rounded to 32 bits between tasks."""
        return BasicTypeInfo("Float", "Float")

    @staticmethod
    def DOUBLE():
        """`float`."""
        return BasicTypeInfo("Double", "Double")

    @staticmethod
    def PICKLED_BYTE_ARRAY():
        """Any object that can be pickled: what a stream is of where no type is declared."""
        return PickledBytesTypeInfo()

    @staticmethod
    def TUPLE(field_types):
        """A tuple of these fields."""
        return TupleTypeInfo(field_types)

    @staticmethod
    def ROW(field_types):
        """A `Row` of these fields, named f0, f1, …"""
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(field_names, field_types):
        """A `Row` of these fields."""
        return RowTypeInfo(field_types, field_names)
