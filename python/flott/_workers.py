"""How the worker processes of a job are started: `Workers`. What they do is in `flott.worker`."""
import os
import secrets
import sys


class Workers:
    """What the engine must know to start workers of a job."""

    def __init__(self, count):
        if not isinstance(count, int) or count < 0:
            raise ValueError(f"expected a number of worker processes, found {count!r}")
        if not sys.executable:
            raise RuntimeError("Python does not know its own program (sys.executable), so it cannot start workers")
        self.count = count
        # Who knows it may connect to the job.
        self.token = secrets.token_hex(16)
        self.command = [sys.executable, "-m", "flott.worker"]
        # Functions find there what they find here. An empty entry is the current folder.
        path = [os.path.abspath(entry) for entry in sys.path if isinstance(entry, str)]
        self.variables = {"PYTHONPATH": os.pathsep.join(path)}
