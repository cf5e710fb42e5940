"""The Python end of a fused run of user functions: the engine calls a `Program` once a batch.

For each run one loop is generated, with a line for each member, so that a call costs what it costs in Python and
nothing more, and the line of a traceback says which member failed. What the loop looks like for map, filter, flat_map:

    for v0 in rows:
        v1 = f0(v0)
        if not f1(v1): continue
        for v3 in f2(v1):
            emit(v3)

Values pass from function to function as they are, as in PyFlink; they are of the declared type where they leave a run.
"""
import pickle
import traceback

_FILE = "<flott run>"
_HERE = __file__.rpartition("_run")[0]
# Rows after which a run that makes many out of one pauses: the engine waits for credit before it goes on.
CHUNK_ROWS = 8192
# CPython allows 20 blocks inside one another.
_MAX_DEPTH = 18

# The method of a function object, by kind of member.
_METHODS = {"map": "map", "filter": "filter", "flat_map": "flat_map", "key_by": "get_key", "reduce": "reduce"}


class Program:
    """The members of a run, loaded and opened. `makes_values`: whether values come out that did not come in."""

    def __init__(self, makes_values):
        self._makes_values = makes_values
        self._kinds, self._functions, self._opened = [], [], []
        # By whether the loop tracks where rows come from.
        self._loops = {}
        # (function, line) of the loops -> member; member -> the number of the variable it is given.
        self._lines, self._given = {}, {}

    def add(self, kind, data, task):
        """The next member: what it is, cloudpickle's bytes of its function (none for `values`), and its task as
        (name, index, parallelism, max parallelism)."""
        self._kinds.append(kind)
        if kind == "values":
            self._functions.append(None)
            return
        function = pickle.loads(data)
        if hasattr(function, "open"):
            from flott.datastream.functions import RuntimeContext

            function.open(RuntimeContext(*task))
        self._opened.append(function)
        self._functions.append(getattr(function, _METHODS[kind], function))

    def run(self, tracked, rows, values, positions):
        """Runs all rows. `values` are those of the batch's distinct keys, `positions` each row's place among them.

        Returns (more rows follow, rows out of each member but the last, values, keys, rows they come from).
        """
        return self._loop(tracked)(rows, values, positions)

    def chunks(self, tracked, rows, values, positions):
        """As `run`, a chunk at a time."""
        return self._loop(tracked)(rows, values, positions)

    def close(self):
        """Calls `close` of every function that has one; the first exception is raised after the last call."""
        opened, self._opened, first = self._opened, [], None
        for function in opened:
            try:
                if hasattr(function, "close"):
                    function.close()
            except Exception as e:
                first = first or e
        if first is not None:
            raise first

    def failure(self, exception):
        """What to tell of an exception: (member, the value it was given, the user's traceback); what is not known
        is None."""
        at, member, record = exception.__traceback__, None, None
        while at is not None and member is None:
            code = at.tb_frame.f_code
            if code.co_filename == _FILE:
                member = self._lines.get((code.co_name, at.tb_lineno))
                values = at.tb_frame.f_locals
            at = at.tb_next
        if member is not None:
            record = values.get(f"v{self._given[member]}")
        return member, record, format_exception(exception)

    def _loop(self, tracked):
        if tracked not in self._loops:
            self._loops[tracked] = self._generate(tracked)
        return self._loops[tracked]

    def _generate(self, tracked):
        kinds, last = self._kinds, len(self._kinds) - 1
        chunked, keyed, finds_key = "flat_map" in kinds, kinds[0] == "reduce", kinds[-1] == "key_by"
        name = "tracked" if tracked else "plain"
        lists = [("values", "emit", self._makes_values), ("keys", "key", finds_key), ("origins", "origin", tracked)]
        lists = [(of, add) for of, add, needed in lists if needed]
        # A member is counted where that is not the number of rows into it.
        counted = [i for i, kind in enumerate(kinds[:-1]) if kind in ("filter", "flat_map")]

        given, current, depth, where, body = {}, 0, 2, {}, []

        def line(text, member=None):
            body.append("    " * depth + text)
            if member is not None:
                where[len(body)] = member

        for i, kind in enumerate(kinds):
            given[i] = current
            if kind == "map":
                line(f"v{i + 1} = f{i}(v{current})", i)
                current = i + 1
            elif kind == "filter":
                line(f"if not f{i}(v{current}): continue", i)
            elif kind == "flat_map":
                line(f"for v{i + 1} in f{i}(v{current}):", i)
                current, depth = i + 1, depth + 1
                if depth > _MAX_DEPTH:
                    raise ValueError("more than 16 flat_map functions in a row: call start_new_chain() on one of them")
            elif kind == "reduce":
                line("state = kept[position]")
                line(f"v{i + 1} = v{current} if state is None else f{i}(state, v{current})", i)
                line(f"kept[position] = v{i + 1}")
                current = i + 1
            elif kind == "key_by":
                line(f"key(f{i}(v{current}))", i)
            if i in counted:
                line(f"n{i} += 1")
        if self._makes_values:
            line(f"emit(v{current})")
        if tracked:
            line("origin(row)")
        if not body:
            line("pass")

        def answer(rows):
            # Rows out of each member but the last: counted, or as many as out of the member before.
            counts, before = [], rows
            for i in range(last):
                before = f"n{i}" if i in counted else before
                counts.append(before)
            of = [of if any(of == made for made, _ in lists) else "None" for of in ("values", "keys", "origins")]
            return f"[{', '.join(counts)}], {', '.join(of)}"

        fresh = [f"{of} = []; {add} = {of}.append" for of, add in lists] + [f"n{i} = 0" for i in counted]
        if chunked:
            line(f"if len(values) >= {CHUNK_ROWS}:")
            depth += 1
            # The rows that came in are counted with the last chunk.
            line(f"yield True, {answer('0')}")
            body.extend("    " * depth + text for text in fresh)

        loops = [("row", "range(len(rows))", tracked), ("v0", "rows", True), ("position", "positions", keyed)]
        loops = [(variable, over) for variable, over, used in loops if used]
        over = loops[0][1] if len(loops) == 1 else f"zip({', '.join(o for _, o in loops)})"
        functions = "".join(f", f{i}=f{i}" for i, f in enumerate(self._functions) if f is not None)
        head = [f"def {name}(rows, kept, positions{functions}):"]
        head += ["    " + text for text in fresh]
        head += [f"    for {', '.join(v for v, _ in loops)} in {over}:"]
        tail = [f"    {'yield' if chunked else 'return'} False, {answer('len(rows)')}"]
        scope = {f"f{i}": f for i, f in enumerate(self._functions) if f is not None}
        exec(compile("\n".join(head + body + tail), _FILE, "exec"), scope)
        self._lines = {**self._lines, **{(name, number + len(head)): member for number, member in where.items()}}
        self._given = given
        return scope[name]


def format_exception(exception):
    """The traceback of an exception as Python prints it, without the frames of flott that lead to the user's code."""
    at = exception.__traceback__
    while at is not None and (
        at.tb_frame.f_code.co_filename == _FILE or at.tb_frame.f_code.co_filename.startswith(_HERE)
    ):
        at = at.tb_next
    return "".join(traceback.format_exception(type(exception), exception, at)).rstrip()


def dumps(value):
    """Pickles a value; by value where it is of a class of the script, which another process cannot import."""
    try:
        data = pickle.dumps(value, protocol=5)
        if b"__main__" not in data:
            return data
    except (pickle.PicklingError, AttributeError, TypeError):
        pass
    import cloudpickle

    return cloudpickle.dumps(value, protocol=5)


def tuples(lists, rows):
    """The rows of columns, as tuples."""
    return list(zip(*lists)) if lists else [()] * rows


def rows(names, lists, count):
    """The rows of columns, as `Row`s with these names."""
    from flott.common.types import Row

    return [Row._of(names, values) for values in tuples(lists, count)]


def fields(value, names):
    """The fields of a `Row` as a tuple, by these names where it has names; None for anything else."""
    from flott.common.types import Row

    if not isinstance(value, Row):
        return None
    if names and value._fields is not None:
        return tuple(value[name] for name in names)
    return tuple(value._values)
