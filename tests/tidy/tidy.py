#!/usr/bin/python3
"""The project's own rules, held by a test: folder arrows, cores without I/O, banned words, file length, names."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1]).resolve()
errors, warnings = [], []

# Who may include whom (docs/explanation/architecture.md). A folder may always include itself.
arrows = {
    "cluster/base": [],
    "cluster/logging": ["cluster/base"],
    "cluster/record": ["cluster/base"],
    "cluster/placement": ["cluster/base", "cluster/record"],
    "cluster/ownership": ["cluster/base", "cluster/record", "cluster/placement"],
    "cluster/protocol": ["cluster/base", "cluster/record", "cluster/placement"],
    "cluster/store": ["cluster/base", "cluster/record", "cluster/placement"],
    "cluster/replication": ["cluster/base", "cluster/record", "cluster/placement", "cluster/protocol", "cluster/store"],
    "cluster/lmdb": ["cluster/base"],
    "cluster/coordinator": ["cluster/base", "cluster/record", "cluster/placement", "cluster/lmdb"],
    "cluster/net": ["cluster/base"],
    "cluster/etcd": ["cluster/base", "cluster/record", "cluster/tls"],
    "cluster/region": ["cluster/base", "cluster/record", "cluster/placement", "cluster/protocol", "cluster/store", "cluster/ownership", "cluster/replication", "cluster/etcd",
                       "cluster/coordinator"],
    "cluster/peer": ["cluster/base", "cluster/logging", "cluster/record", "cluster/protocol", "cluster/net", "cluster/tls"],
    "cluster/config": ["cluster/base", "cluster/record", "cluster/placement"],
    "cluster/tls": ["cluster/base", "cluster/net"],
    "cluster/admin": ["cluster/base", "cluster/logging", "cluster/net", "cluster/tls"],
    "cluster/client": ["cluster/base", "cluster/record", "cluster/placement", "cluster/protocol", "cluster/net", "cluster/tls"],
    "cluster/node": ["cluster/base", "cluster/logging", "cluster/record", "cluster/placement", "cluster/protocol", "cluster/store", "cluster/coordinator",
                     "cluster/net", "cluster/config", "cluster/tls", "cluster/admin", "cluster/etcd", "cluster/ownership", "cluster/replication", "cluster/region", "cluster/peer"],
    "cluster/cli": ["cluster/base", "cluster/record", "cluster/placement", "cluster/protocol", "cluster/client", "cluster/tls", "cluster/net"],
    "feed/message": ["cluster/base", "cluster/record", "cluster/placement"],
    "feed/session": ["cluster/base", "cluster/record", "cluster/placement", "cluster/store", "feed/message"],
    "feed/transport": ["cluster/base", "cluster/record", "cluster/net", "cluster/tls"],
    "feed/relay": ["cluster/base", "cluster/record", "cluster/placement", "cluster/protocol", "feed/message", "feed/session"],
    "feed/routed": ["cluster/", "feed/"],
    "feed/gateway": ["cluster/", "feed/message", "feed/session", "feed/transport"],
    "feed/client": ["cluster/base", "cluster/logging", "cluster/record", "cluster/placement", "cluster/net", "cluster/tls", "feed/message", "feed/session", "feed/transport"],
    "feed/cli": ["cluster/", "feed/"],
    "cursor": ["cluster/base", "cluster/record", "cluster/placement", "cluster/lmdb"],
    "cursor/cli": ["cluster/base", "cluster/record", "cluster/placement", "cluster/lmdb", "cursor", "cursor/conflict"],
    "follower/link": ["cluster/base", "cluster/record", "cluster/placement", "feed/message", "feed/session", "cursor"],
    "cursor/conflict": ["cluster/base", "cluster/record"],
    "follower/shell": ["cluster/base", "cluster/logging", "cluster/record", "cluster/placement", "cluster/protocol", "cluster/client", "cluster/config", "cluster/tls",
                       "cluster/net", "cluster/admin", "feed/", "cursor", "follower/"],
}
# No sockets, clocks, threads, files or randomness: what decides can be run by the simulator.
cores = ["cluster/record", "cluster/placement", "cluster/ownership", "cluster/etcd", "cluster/protocol", "cluster/store", "cluster/replication", "cluster/region", "feed/message", "feed/session", "feed/relay", "follower/link"]
core_bans = [r"#include <(boost/asio|boost/beast|openssl|lmdb|thread|fstream|filesystem|random|sys/socket|unistd)", r"_clock::now\(", r"std::random_device",
             r"\bgetenv\(", r"\bclock_gettime\("]
core_exceptions = {("cluster/placement/scope.cpp", "openssl/sha.h")}  # a pure function
core_shells = {"cluster/etcd/http_io.cpp", "cluster/etcd/http_connection.cpp", "cluster/etcd/http_connection.hpp"}  # what performs, of its folder
bans = [
    (r"sleep_for\(|sleep_until\(|\busleep\(|\bnanosleep\(", "wait on a condition with a deadline"),
    (r"\btime\.sleep\((?!0?\.0[0-9]*\))", "wait on a condition with a deadline (a poll of under 0.1 s is one)"),
    (r"std::random_device", "randomness comes from the shell (programs/, or a test's seed)"),
    (r"\bFIXME\b|\bXXX\b|\bTODO\b", "a decision before it is committed"),
]
random_allowed = re.compile(r"^(programs/|follower/shell/|feed/client/|feed/gateway/|cluster/node/|cluster/client/|cluster/tls/|cluster/coordinator/|cluster/base/entropy)")
bad_names = re.compile(r"(^|/)(utils?|common|types|misc|helpers?)(\.|/|_|$)")
length_warn, length_fail = 600, 1000
suffixes = {".cpp", ".hpp", ".py", ".sh", ".cmake"}


def sources():
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root).as_posix()
        if relative.startswith(("build", "run/", ".git/")) or not path.is_file():
            continue
        if path.suffix in suffixes or (path.suffix == "" and relative.startswith(("tests/", "deploy/", "soak/", ".ci/")) and b"\0" not in path.read_bytes()[:512]):
            yield path, relative


def folder_of(relative):
    parts = relative.split("/")
    for depth in (2, 1):
        name = "/".join(parts[:depth])
        if name in arrows:
            return name
    return None


for path, name in sources():
    text = path.read_text(errors="replace")
    lines = text.splitlines()
    if bad_names.search(name):
        errors.append(f"{name}: name a file or folder for what it holds")
    if len(lines) > length_fail:
        errors.append(f"{name}: {len(lines)} lines; a file has one purpose and at most {length_fail}")
    elif len(lines) > length_warn:
        warnings.append(f"{name}: {len(lines)} lines; does it still have one purpose?")
    home = folder_of(name) if path.suffix in {".cpp", ".hpp"} and not name.startswith("tests/") else None
    for number, line in enumerate(lines, 1):
        where = f"{name}:{number}"
        included = re.match(r'\s*#include "([^"]+)"', line)
        if home and included:
            target = included.group(1)
            allowed = [home, *arrows[home]]
            if not any(target.startswith(a if a.endswith("/") else a + "/") for a in allowed):
                errors.append(f"{where}: {home} may not include {target} (allowed: {', '.join(allowed)})")
        if home in cores and name not in core_shells and not any(name == f and header in line for f, header in core_exceptions):
            for ban in core_bans:
                if re.search(ban, line):
                    errors.append(f"{where}: a core has no I/O, clock, thread or randomness of its own: {line.strip()}")
        if name == "tests/tidy/tidy.py":
            continue
        for ban, instead in bans:
            if re.search(ban, line) and not ("random_device" in ban and random_allowed.match(name)):
                errors.append(f"{where}: {line.strip()[:80]} — instead: {instead}")
    if path.suffix == ".hpp":
        if "#pragma once" not in text:
            errors.append(f"{name}: no #pragma once")
        if not name.startswith("tests/") and not re.search(r"(asio_loop|client/asio|loop_context|etcd/http_connection|/openssl|message/packer)\.hpp$", name):  # opt-in headers say so themselves
            for number, line in enumerate(lines, 1):
                if re.match(r"\s*#include <(boost/asio|boost/beast|msgpack|prometheus)", line):
                    errors.append(f"{name}:{number}: {line.strip()} costs every includer seconds: keep it in a .cpp file")

for w in warnings:
    print("warning:", w)
for e in errors:
    print("error:", e, file=sys.stderr)
print(f"{'0' if errors else '1'} passed, {len(errors)} failed")
sys.exit(1 if errors else 0)
