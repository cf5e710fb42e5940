"""A worker process, `python -m flott.worker`: hosts tasks of a job that another process runs. The engine starts it.

What it is told is in an environment variable. Errors go to standard error, where that process reads them.
"""
import os
import signal
import sys

from flott import _engine


def main():
    """Takes part in the job and ends this process."""
    # `-m` has put the current folder first, where the program may not look.
    if not getattr(sys.flags, "safe_path", False):
        del sys.path[0]
    # Ctrl-C reaches all processes of a terminal: the one that runs the job decides. Programs that functions start do
    # not inherit this handler, as they would SIG_IGN.
    signal.signal(signal.SIGINT, lambda *_: None)
    code = 1
    try:
        _engine.worker(os.environ.pop(_engine.SEAT_VARIABLE, ""))
        code = 0
    except Exception as e:
        print(f"flott.worker: {e}", file=sys.stderr)
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            # At once: a function may still be stuck in a thread of the engine.
            os._exit(code)


if __name__ == "__main__":
    main()
