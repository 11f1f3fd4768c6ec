"""A load on a region of several that remembers what was acknowledged, and how long no key was served."""
import json
import math
import signal
import subprocess
import time

import region as region_of_several


class Load:
    """cluster_ledger write in the background; its lines as they come."""

    def __init__(self, url, file, keys=200, durability="replica", pause_ms=0, prefix="ledger", run=()):
        """`run`: what the program is started with, as for a namespace of its own."""
        self.file = file
        self.process = region_of_several.ledger("write", "--url", url, "--file", file, "--keys", keys, "--durability", durability, "--pause-ms", pause_ms, "--prefix", prefix,
                                                run=run, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.last = {}

    def line(self):
        text = self.process.stdout.readline()
        if not text:
            raise AssertionError(f"the writer ended: {self.process.stderr.read()}")
        self.last = json.loads(text)
        return self.last

    def worst_until_all_flow(self, seconds):
        """The longest gap of any key, read until every key has been acknowledged since."""
        worst, quiet = 0.0, 0
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            line = self.line()
            if line["at"] < began:
                continue  # said before the fault, and only read now
            worst = max(worst, line["longest_s"], line["waiting_s"])
            quiet = quiet + 1 if line["longest_s"] < 1 and line["waiting_s"] < 1 else 0
            if quiet >= 2:
                return worst
        raise AssertionError(f"writes do not flow again: {self.last}")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=120)
        lines = out.strip().splitlines()
        if lines:
            self.last = json.loads(lines[-1])
        return self.last


def distribution(seconds):
    """Of times without service: nearest rank, so that each figure is one that was seen."""
    found = sorted(seconds)
    at = lambda share: round(found[max(0, math.ceil(share * len(found)) - 1)], 2)  # noqa: E731
    return {"rounds": len(found), "p50": at(0.5), "p90": at(0.9), "max": at(1), "all": [round(x, 2) for x in found]} if found else {"rounds": 0}
