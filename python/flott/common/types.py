"""`Row`, a value with fields that may have names, and what it does to a changelog: `RowKind`."""
from enum import Enum


class RowKind(Enum):
    """What a row does to a changelog."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self):
        return ("+I", "-U", "+U", "-D")[self.value]


class Row:
    """Fields by position and, where they have names, by name.

    >>> Row("Ann", 3)[1]
    3
    >>> Row(name="Ann", age=3).age
    3
    >>> Person = Row("name", "age")
    >>> Person("Ann", 3)
    Row(name='Ann', age=3)
    """

    __slots__ = ("_fields", "_values", "_row_kind")

    def __init__(self, *args, **kwargs):
        if args and kwargs:
            raise ValueError("a Row takes values or named values, not both")
        _set(self, "_fields", list(kwargs) if kwargs else None)
        _set(self, "_values", list(kwargs.values()) if kwargs else list(args))
        _set(self, "_row_kind", RowKind.INSERT)

    @classmethod
    def _of(cls, names, values):
        row = cls.__new__(cls)
        _set(row, "_fields", names)
        _set(row, "_values", values)
        _set(row, "_row_kind", RowKind.INSERT)
        return row

    def as_dict(self, recursive=False):
        """Names and values; with `recursive`, rows inside become dictionaries too."""
        if self._fields is None:
            raise TypeError("a Row without names cannot become a dict")

        def convert(value):
            if isinstance(value, Row):
                return value.as_dict(True)
            if isinstance(value, list):
                return [convert(v) for v in value]
            if isinstance(value, dict):
                return {k: convert(v) for k, v in value.items()}
            return value

        return {name: convert(value) if recursive else value for name, value in zip(self._fields, self._values)}

    def get_row_kind(self):
        """What the row does to a changelog."""
        return self._row_kind

    def set_row_kind(self, row_kind):
        """Sets what the row does to a changelog."""
        _set(self, "_row_kind", row_kind)

    def set_field_names(self, field_names):
        """Names the fields."""
        _set(self, "_fields", list(field_names))

    def get_fields_by_names(self, names):
        """A row of the fields with these names."""
        return Row._of(list(names), [self[name] for name in names])

    def _position(self, item):
        if isinstance(item, (int, slice)):
            return item
        try:
            return self._fields.index(item) if isinstance(self._fields, list) else tuple(self._fields).index(item)
        except (ValueError, TypeError):
            raise KeyError(item) from None

    def __call__(self, *args):
        if len(args) > len(self._values):
            raise ValueError(f"expected at most {len(self._values)} values, found {len(args)}")
        return Row._of([str(name) for name in self._values[: len(args)]], list(args))

    def __getitem__(self, item):
        return self._values[self._position(item)]

    def __setitem__(self, key, value):
        if not isinstance(self._values, list):
            _set(self, "_values", list(self._values))
        self._values[self._position(key)] = value

    def __getattr__(self, item):
        if item.startswith("_"):
            raise AttributeError(item)
        try:
            return self[item]
        except KeyError:
            raise AttributeError(item) from None

    def __setattr__(self, key, value):
        if self._fields is None or key not in self._fields:
            raise AttributeError(f"a Row has no field '{key}' to set")
        self[key] = value

    def __contains__(self, item):
        return item in self._values

    def __iter__(self):
        return iter(self._values)

    def __len__(self):
        return len(self._values)

    def __eq__(self, other):
        if not isinstance(other, Row):
            return NotImplemented
        names = self._fields is None or other._fields is None or list(self._fields) == list(other._fields)
        return names and list(self._values) == list(other._values) and self._row_kind == other._row_kind

    def __hash__(self):
        return hash(tuple(self._values))

    def __repr__(self):
        if self._fields is None:
            return f"Row({', '.join(map(repr, self._values))})"
        return f"Row({', '.join(f'{name}={value!r}' for name, value in zip(self._fields, self._values))})"

    def __getstate__(self):
        return (self._fields and list(self._fields), list(self._values), self._row_kind)

    def __setstate__(self, state):
        for name, value in zip(Row.__slots__, state):
            _set(self, name, value)


_set = object.__setattr__
