"""Looks for bytes that break a decoder, guided by coverage: `make fuzz`, or `python -m tests.fuzz --seconds 60 mark`.

Needs atheris, which has a lock file and an environment of its own. What it found useful is kept in build/fuzz, so that
the next run goes on from there; what broke something is left beside it and printed.
"""

import argparse
import subprocess
import sys
from pathlib import Path

FOLDER = Path("build/fuzz")
MEMORY_MIB = 1024
ONE_INPUT_S = 5
LONGEST = {"message": 65_536, "session_json": 65_536}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=30, help="for each target")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("targets", nargs="*")
    asked = parser.parse_args()
    if asked.inside:
        fuzz(asked.inside, asked.seconds)
    from tests.support import fuzz_targets  # noqa: PLC0415 - inside the fuzzer it has to be imported under its eyes

    failed = [name for name in asked.targets or fuzz_targets.TARGETS if not survives(name, asked.seconds)]
    if failed:
        print(f"broken: {', '.join(failed)}; see {FOLDER}/<target>.log")
    return 1 if failed else 0


def survives(name: str, seconds: int) -> bool:
    """Each target in a process of its own: the fuzzer ends the one that it runs in."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    log = FOLDER / f"{name}.log"
    with log.open("wb") as out:
        command = [sys.executable, "-m", "tests.fuzz", "--inside", name, "--seconds", str(seconds)]
        code = subprocess.run(command, stdout=out, stderr=out, check=False).returncode
    last = [line for line in log.read_text(errors="replace").splitlines() if line.startswith(("#", "Done"))]
    print(f"{name:14} {'survives' if code == 0 else 'BROKEN'}: {last[-1] if last else 'it did not start'}", flush=True)
    return code == 0


def fuzz(name: str, seconds: int) -> None:
    import atheris  # noqa: PLC0415 - only in the environment of `make fuzz`

    with atheris.instrument_imports(include=["rta_wire"]):
        from tests.support import fuzz_targets  # noqa: PLC0415 - see above

    corpus = FOLDER / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(fuzz_targets.seeds(name)):
        (corpus / f"seed-{number}").write_bytes(seed)
    arguments = [
        *("fuzz", str(corpus)),
        *(f"-max_total_time={seconds}", f"-timeout={ONE_INPUT_S}", f"-rss_limit_mb={MEMORY_MIB}"),
        *(f"-max_len={LONGEST.get(name, 8192)}", f"-artifact_prefix={FOLDER}/{name}-", "-print_final_stats=1"),
    ]
    atheris.Setup(arguments, fuzz_targets.TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
