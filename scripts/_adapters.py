"""Run each framework's adapter tests in an environment of its own, at the lowest and the newest supported versions.

`scripts/test adapters [NAME ...] [--only lowest|newest]`; pins are in requirements/adapters (scripts/lock writes them).
"""

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PINS = ROOT / "requirements" / "adapters"


def run(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], check=True, cwd=ROOT)


def test(name: str, versions: str) -> bool:
    """Make or refresh the environment and run tests/adapters/test_<name>.py there."""
    pins = PINS / f"{name}-{versions}.txt"
    folder = ROOT / f".venv-{name}-{versions}"
    python = folder / "bin" / "python"
    uv = [ROOT / ".venv" / "bin" / "python", "-m", "uv", "--quiet", "--system-certs"]
    if not python.exists():
        run(*uv, "venv", "--python", sys.executable, folder)
    run(*uv, "pip", "sync", "--python", python, pins)
    run(*uv, "pip", "install", "--python", python, "--no-deps", "-e", ".")
    print(f"== {name}, {versions}", flush=True)
    module = f"tests/adapters/test_{name.replace('-', '_')}.py"
    return subprocess.run([str(python), "-m", "pytest", "-q", module], cwd=ROOT).returncode == 0


def main() -> int:
    known = sorted({path.stem.rsplit("-", 1)[0] for path in PINS.glob("*-newest.txt")})
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    parser.add_argument("--only", choices=("lowest", "newest"))
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(known):
        parser.error(f"unknown adapter {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    versions = [arguments.only] if arguments.only else ["newest", "lowest"]
    failed = [(name, v) for name in arguments.names or known for v in versions if not test(name, v)]
    for name, version in failed:
        print(f"FAILED {name}, {version}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
