"""The admin port of a follower whose links stand as the test says: for states that are hard to bring about."""
import http.server
import json
import threading


class FakeFollower:
    """`links` maps names to statuses; may be changed at any time. Use with `with`."""

    def __init__(self, **links):
        self.links = links
        self.posted = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def answer(self, status, body):
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self):
                if self.path == "/v1/links":
                    return self.answer(200, {"links": list(outer.links.values())})
                link = outer.links.get(self.path.rsplit("/", 1)[1])
                return self.answer(200, link) if link else self.answer(404, {"code": "link_unknown", "message": "no link of that name", "hint": ""})

            def do_POST(self):
                outer.posted.append(self.path)
                self.answer(200, {})

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def link(name, state, reason="", stopped=(), **more):
    """A status as docs/reference/link-status.md has it, as far as `zaris` looks at it; `stopped`: reasons of segments."""
    segments = [{"id": n, "phase": "stopped" if why else "stream", "stopped_reason": why} for n, why in enumerate(stopped)]
    return {"name": name, "state": state, "reason": reason, "next_step": "", "caught_up": False, "staleness_seconds": 0.8, "backlog_revisions": 5, "segments": segments, **more}
