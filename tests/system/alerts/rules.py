#!/usr/bin/python3
"""The shipped alert rules: promtool accepts them, each is tested, each has its runbook and each runbook its alert."""
import pathlib
import subprocess
import sys

import yaml

root = pathlib.Path(__file__).resolve().parents[3]
rules_file = root / "deploy/prometheus/zaris.rules.yml"
tests_file = root / "deploy/prometheus/zaris.rules.test.yml"
passed = failed = 0


def check(what, good, detail=""):
    global passed, failed
    passed, failed = (passed + 1, failed) if good else (passed, failed + 1)
    if not good:
        print(f"{what}: {detail}", file=sys.stderr)


for command in (["promtool", "check", "rules", rules_file], ["promtool", "test", "rules", tests_file]):
    run = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    check(" ".join(map(str, command[:3])), run.returncode == 0, run.stdout + run.stderr)

alerts = {r["alert"]: r for g in yaml.safe_load(rules_file.read_text())["groups"] for r in g["rules"] if "alert" in r}
cases = [c for t in yaml.safe_load(tests_file.read_text())["tests"] for c in t["alert_rule_test"]]
pages = {p.stem for p in (root / "docs/runbooks").glob("*.md")} - {"README"}
check("alerts without a runbook", not alerts.keys() - pages, sorted(alerts.keys() - pages))
check("runbooks without an alert", not pages - alerts.keys(), sorted(pages - alerts.keys()))
fired = {c["alertname"] for c in cases if c["exp_alerts"]}
check("alerts that no test sees fire", not alerts.keys() - fired, sorted(alerts.keys() - fired))
for name, rule in alerts.items():
    check(name, rule["labels"]["severity"] in ("critical", "warning", "info"), "severity")
    check(name, rule["annotations"]["runbook_url"].endswith("/" + name), "runbook_url")
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
