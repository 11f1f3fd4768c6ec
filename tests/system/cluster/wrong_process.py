#!/usr/bin/python3
"""Processes that are no node of the region, by mistake: one with another node's certificate ends and says whose it is; one with a node's name
and another store is refused, and said once, not several times a second.

    wrong_process.py [--seed S]
"""
import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import processes  # noqa: E402
from harness.waiting import eventually  # noqa: E402
import region as region_of_several  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.parse_args()
    with processes.Bench("wrong-process") as bench:
        region = region_of_several.Region(bench, "a", failover__cooldown="1s").start()
        one, two = region.nodes[0], region.nodes[1]
        one.kill()

        right = dict(one.config["tls"])
        one.config["tls"].update({word: two.config["tls"][word] for word in ("cert", "key")})
        one.start(wait=None)
        status = one.process.wait(30)
        assert status == 3, f"exit {status}: {one.tail()}"
        one.process = None
        said = region.events(one, "node_certificate_foreign")
        assert len(said) == 1 and said[0]["level"] == "error" and "a2.crt is not of node a1: its names are " in said[0]["text"], one.tail()
        print(f"another node's certificate: {said[0]['text']}", flush=True)

        one.config["tls"] = right
        one.config["store"] = "other"
        one.config["logging"]["level"] = "debug"  # where the process itself says each time
        before = len(region.events(one, "peer_refused"))
        one.start(wait="live")
        eventually(lambda: len(region.events(one, "peer_refused")) - before >= 14, "it has come to both others seven times", 60)
        for node in region.nodes[1:]:
            lines = [line for line in region.events(node, "peer_refused") if "store" in line["text"]]
            assert len(lines) == 1 and lines[0]["peer"] == "a1" and lines[0]["repeated"] == 0, lines
        assert one.stop(60) == 0, one.tail()
        print("another store: said once")

        one.config["store"] = "main"
        one.start(wait="ready")
        region.wait_balanced()
    print("1 passed, 0 failed")


main()
