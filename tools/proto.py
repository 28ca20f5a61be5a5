"""Generates the protobuf code next to its .proto files; --check only compares, for CI."""

import filecmp
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent / "proto"


def generate(out: Path) -> list[Path]:
    protoc = Path(sysconfig.get_path("scripts")) / "protoc"
    sources = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("rta_wire/pb/*.proto"))
    subprocess.run(
        [str(protoc), f"--proto_path={ROOT}", f"--python_out={out}", f"--pyi_out={out}", *sources], check=True
    )
    return sorted(path.relative_to(out) for path in out.glob("rta_wire/pb/*_pb2.py*"))


def main() -> int:
    if "--check" not in sys.argv:
        print("\n".join(str(path) for path in generate(ROOT)))
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch)
        made = generate(fresh)
        stale = [p for p in made if not (ROOT / p).exists() or not filecmp.cmp(ROOT / p, fresh / p, shallow=False)]
    for path in stale:
        print(f"proto/{path} is not what its .proto file says. Run: make proto", file=sys.stderr)
    print(f"{len(made)} generated files, {len(stale)} stale")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
