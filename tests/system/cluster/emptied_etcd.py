#!/usr/bin/python3
"""etcd comes back with nothing of the region under running nodes: they serve on and say so, and a node that is restarted does not begin a
second region under the same names, where keys that stand would be answered with "there is none".

    emptied_etcd.py [--seed S]
"""
import argparse
import json
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import processes  # noqa: E402
from harness.waiting import eventually  # noqa: E402
import region as region_of_several  # noqa: E402


def healthy(region):
    run = processes.run_zaris("status", "--url", region.url, "-o", "json", check=False)
    return json.loads(run.stdout)["regions"][0]["cluster"]["healthy"] if run.stdout else False


def empty_etcd(region):
    region.etcd.kill()
    shutil.rmtree(region.etcd.folder / "data")
    region.etcd.start()


def refuses_to_begin(region, victim, begun):
    eventually(lambda: region.events(victim, "etcd_emptied"), "the restarted node says that etcd was emptied", 60)
    for node in region.nodes:
        run = processes.run_zaris("kv", "get", "stays", "--url", f"zaris://127.0.0.1:{node.client_port}/main", "--timeout", "2s", check=False)
        assert run.returncode == 0 and run.stdout.strip() == "there" or "not_found" not in run.stderr + run.stdout, f"{node.name}: {run.stdout}{run.stderr}"
    assert len(region.events(victim, "region_created")) == begun, "a second region"
    eventually(lambda: "etcd_emptied" in victim.readiness()[1]["serving"], "its readiness says so", 10)
    assert victim.probe("/livez")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.parse_args()
    with processes.Bench("emptied-etcd") as bench:
        region = region_of_several.Region(bench, "a", failover__cooldown="1s").start()
        processes.run_zaris("kv", "put", "stays", "there", "--url", region.url)
        eventually(lambda: healthy(region), "the region is healthy", 30)
        empty_etcd(region)
        eventually(lambda: not healthy(region), "zaris status says that the region is not healthy", 60)
        eventually(lambda: all("holds nothing of this region" in (json.loads(n.http("/v1/status"))["region_map"]["etcd"]["trouble"] or "") for n in region.nodes),
                   "every node says why", 60)
        assert processes.run_zaris("kv", "get", "stays", "--url", region.url).stdout.strip() == "there"
        print("the nodes serve on and say that etcd holds nothing of them")

        for victim in region.nodes[1:]:
            # The second time nobody has registered again yet: the nodes that run speak for themselves.
            victim.kill()
            begun = len(region.events(victim, "region_created"))  # any of them may have begun the first
            if victim is region.nodes[2]: empty_etcd(region)
            victim.start(wait=None)
            refuses_to_begin(region, victim, begun)
        print("a restarted node begins no second region")
    print("1 passed, 0 failed")


main()
