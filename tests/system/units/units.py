#!/usr/bin/python3
"""The shipped systemd units: systemd accepts them, they expose little, and what they start is what was built."""
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.processes import BIN  # noqa: E402

root = pathlib.Path(__file__).resolve().parents[3]
exposure_max = 12  # in tenths
passed = failed = 0


def check(what, good, detail=""):
    global passed, failed
    passed, failed = (passed + 1, failed) if good else (passed, failed + 1)
    if not good:
        print(f"{what}: {detail}", file=sys.stderr)


units = sorted((root / "deploy/systemd").glob("*.service"))
check("units", [u.stem for u in units] == ["zaris-follower", "zaris-gateway", "zarisd"], units)
with tempfile.TemporaryDirectory() as folder:
    for unit in units:
        program = BIN / unit.stem
        text = unit.read_text()
        check(unit.name, f"ExecStart=/usr/bin/{unit.stem} --config /etc/zaris/" in text, "ExecStart")
        version = subprocess.run([str(program), "--version"], capture_output=True, text=True)
        check(unit.name, version.returncode == 0, version.stderr)
        copy = pathlib.Path(folder) / unit.name
        copy.write_text(text.replace(f"/usr/bin/{unit.stem}", str(program)))
        run = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(copy)], capture_output=True, text=True)
        said = [line for line in run.stderr.splitlines() if unit.name in line]
        check(f"systemd-analyze verify {unit.name}", run.returncode == 0 and not said, run.stderr)
        run = subprocess.run(["systemd-analyze", "security", "--offline=true", f"--threshold={exposure_max}", str(copy)], capture_output=True, text=True)
        check(f"systemd-analyze security {unit.name}", run.returncode == 0, run.stdout[-200:] + run.stderr)
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
