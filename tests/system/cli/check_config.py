#!/usr/bin/python3
"""--check-config of follower and gateway refuses the addresses that their start refuses, and says which key it is.

    check_config.py
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import processes  # noqa: E402


def checked(program, *settings):
    run = processes.run_zaris(*[word for setting in settings for word in ("--set", setting)], "--check-config", program=program, check=False)
    return run.returncode, run.stdout + run.stderr


def main():
    with processes.Bench("check-config") as bench:
        stem = bench.certificates
        tls = [f"tls.ca={stem / 'ca.crt'}", f"tls.cert={stem / 'follower.crt'}", f"tls.key={stem / 'follower.key'}"]
        follower = [*tls, f"cursor.path={bench.folder / 'cursors'}", "links[0].name=one"]
        gateway = [*tls, "listeners.feed.address=127.0.0.1:7871"]
        for program, settings, key, wrong in (
            ("zaris-follower", [*follower, "target.url=zaris://h:1", "links[0].source.url=zariss://h:1,h:2"], "links[0].source.url", "feed_url_invalid"),
            ("zaris-follower", [*follower, "target.url=zaris://h:1?no_such=1", "links[0].source.url=zariss://h:1"], "target.url", "url_invalid"),
            ("zaris-gateway", [*gateway, "upstream.seeds=[zaris://h:1?no_such=1]"], "upstream.seeds", "url_invalid"),
        ):
            status, said = checked(program, *settings)
            assert status == 3 and key in said and wrong in said, f"{program}: {status}: {said}"
        for program, settings in (("zaris-follower", [*follower, "target.url=zaris://h:1,[::1]:2/main", "links[0].source.url=zariss://[::1]:1"]),
                                  ("zaris-gateway", [*gateway, "upstream.seeds=[zaris://h:1, 'zaris://[::1]:2']"])):
            status, said = checked(program, *settings)
            assert status == 0 and "is right" in said, f"{program}: {status}: {said}"
    print("5 passed, 0 failed")


main()
