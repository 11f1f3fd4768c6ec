// Runs zaris-follower for one link until it is caught up, ends it, and takes the link out of the target again, so that what was
// brought there is the target's to write. Where it stands is kept by the marks in the target: a replay that broke off goes on
// when it is started again.
//
// 1. the target must hold nothing in the scope, or marks of this very replay;
// 2. zaris-follower, child of this process, copies and follows;
// 3. caught up with what the source held when that was asked: the child is ended;
// 4. the link is dropped from the target; one that held because it was empty is told that it may serve;
// 5. the pin is dropped from the source, so that it holds no log for a follower that will not come back.
#include "cluster/cli/replay.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cluster/cli/http.hpp"
#include "cluster/cli/link_json.hpp"
#include "cluster/cli/replay_pin.hpp"
#include "cluster/cli/verbs.hpp"
#include "cluster/record/record.hpp"
#include "cluster/record/record_table.hpp"

namespace zaris::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct ReplayOptions {
  std::string from, to, ca, cert, key, name = "copy", compare;
  std::vector<std::string> prefixes;
  bool accept_source = false;
};

constexpr int accepted_max = 10;
constexpr std::string_view link_prefix = "replay.";

// The child and its folder; both end with this.
class Follower {
 public:
  ~Follower() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
  }

  Result<void> start(std::vector<std::string> settings) {
    std::string made = (fs::temp_directory_path() / "zaris-replay-XXXXXX").string();
    if (::mkdtemp(made.data()) == nullptr) return failure("file_unreadable", fmt::format("cannot make {}: {}", made, std::strerror(errno)));
    folder_ = made;
    const auto port = free_port();
    admin_ = fmt::format("http://127.0.0.1:{}", port);
    settings.push_back("cursor.path=" + (folder_ / "cursors").string());
    settings.push_back(fmt::format("listeners.admin.address=127.0.0.1:{}", port));
    std::error_code ignored;
    const std::string beside = (fs::read_symlink("/proc/self/exe", ignored).parent_path() / "zaris-follower").string();
    std::vector<std::string> arguments{"zaris-follower"};
    for (const std::string& setting : settings) {
      arguments.push_back("--set");
      arguments.push_back(setting);
    }
    std::vector<char*> argv;
    for (std::string& one : arguments) argv.push_back(one.data());
    argv.push_back(nullptr);
    const std::string log = log_path();
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) return failure("program_missing", fmt::format("cannot start zaris-follower: {}", std::strerror(errno)));
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // Ctrl-C, or a kill of this process, ends it as well
      if (::getppid() != parent) ::_exit(exit_bug);
      std::signal(SIGINT, SIG_DFL);
      std::signal(SIGTERM, SIG_DFL);
      (void)!std::freopen("/dev/null", "r", stdin);
      (void)!std::freopen(log.c_str(), "a", stderr);
      ::dup2(2, 1);
      ::execv(beside.c_str(), argv.data());
      ::execvp("zaris-follower", argv.data());
      ::_exit(127);
    }
    return {};
  }

  [[nodiscard]] const std::string& admin() const { return admin_; }

  // Its exit status, once it has one.
  std::optional<int> ended() {
    int status = 0;
    if (pid_ <= 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  // Persists and acknowledges what it has, then ends.
  void stop() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

  [[nodiscard]] std::string last_words() const {
    std::ifstream in(log_path());
    std::string line, last;
    while (std::getline(in, line))
      if (!line.empty()) last = line;
    return printable(last, 500);
  }

 private:
  [[nodiscard]] std::string log_path() const { return (folder_ / "log").string(); }
  static std::uint16_t free_port() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof at;
    const bool good = ::bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 && ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &length) == 0;
    ::close(fd);
    return good ? ntohs(at.sin_port) : std::uint16_t{7899};
  }

  fs::path folder_;
  std::string admin_;
  pid_t pid_ = 0;
};

Result<std::uint64_t> keys_in(client::Client& client, const Scope& scope) {
  const auto rows = client.digest(scope, protocol::DigestBy::total).get();
  if (!rows) return tl::unexpected(rows.error());
  return (*rows)[0].count;
}

// Records in the scope that no link from this source has brought: the target's own, written since the replay broke off. No more than `enough` are counted.
Result<std::uint64_t> own_records(client::Client& client, const Scope& scope, ClusterId source, std::uint64_t enough) {
  std::uint64_t own = 0;
  std::optional<SlotKey> after;
  do {
    const auto page = client.scan(scope, after, {}).get();
    if (!page) return tl::unexpected(page.error());
    std::size_t offset = 0;
    for (std::size_t i = 0; i < row_count(page->table); ++i) {
      const std::size_t length = read_row(page->table, i).length;
      const auto record = parse_record(std::string_view(page->records).substr(offset, length));
      if (!record) return tl::unexpected(record.error());
      own += record->origin && record->origin->cluster == source ? 0 : 1;
      offset += length;
    }
    after = page->next;
  } while (after && own < enough);
  return own;
}

std::vector<std::string> settings_of(const ReplayOptions& o) {
  std::vector<std::string> out{"name=" + o.name, "target.url=" + o.to, "links[0].name=" + o.name, "links[0].source.url=" + o.from,
                               "links[0].max_removal=100%", "logging.format=text"};
  if (!o.ca.empty()) out.push_back("links[0].source.ca=" + o.ca);
  if (!o.cert.empty()) out.push_back("links[0].source.cert=" + o.cert);
  if (!o.key.empty()) out.push_back("links[0].source.key=" + o.key);
  for (std::size_t i = 0; i < o.prefixes.size(); ++i) out.push_back(fmt::format("links[0].scope.prefixes[{}]={}", i, o.prefixes[i]));
  return out;
}

// Zero until the follower has reached it.
ClusterId source_of(const nlohmann::ordered_json& link) {
  const nlohmann::ordered_json::json_pointer at("/source/cluster_id");
  std::uint64_t id = 0;
  if (link.contains(at) && link.at(at).is_string()) {
    const auto& text = link.at(at).get_ref<const std::string&>();
    std::from_chars(text.data(), text.data() + text.size(), id, 16);
  }
  return ClusterId(id);
}

// Held because the source is not what it was when this replay began.
bool concerns_source(const std::string& reason) {
  for (const std::string_view code : {"source_reset", "source_changed", "ahead_of_source", "wrong_cluster"}) {
    if (reason.starts_with(code)) return true;
  }
  return false;
}

// Until the link is caught up with what the source held at this call. Progress on the way.
int follow(const Context& context, const ReplayOptions& o, Follower& follower, milliseconds timeout, ClusterId& source) {
  int accepted = 0;
  Clock::time_point accepted_at{};
  const auto began = Clock::now();
  Progress progress(context);
  std::string stands = "starting";
  while (true) {
    if (const auto status = follower.ended()) {
      if (*status == 127) return fail({"program_missing", "zaris-follower was found neither beside zaris nor in PATH", "it comes with the package"});
      return fail({"replay_failed", fmt::format("zaris-follower ended with status {}: {}", *status, follower.last_words()), ""});
    }
    const auto link = link_of(follower.admin(), o.name, milliseconds(5000));
    if (link) {
      const std::string state = link->value("state", "");
      const std::string reason = link->value("reason", "");
      // Another link wrote to the source meanwhile, and the tail does not carry that: a copy is what was asked for, so what is concerned is copied again.
      const bool another_link = reason.starts_with("source_standby"), another_source = concerns_source(reason);
      if (state == "held" && (another_link || (another_source && o.accept_source)) && accepted < accepted_max) {
        if (Clock::now() - accepted_at >= milliseconds(1000)) {
          accepted_at = Clock::now();
          ++accepted;
          (void)ask_admin("POST", follower.admin(), "/v1/links/" + url_encoded(o.name) + "/accept-source", milliseconds(5000));
        }
        pause_for(milliseconds(50));
        continue;
      }
      // The target has nothing but what this replay has brought, and becomes what the source is: it may go.
      if (state == "held" && reason.starts_with("large_removal")) {
        (void)ask_admin("POST", follower.admin(), "/v1/links/" + url_encoded(o.name) + "/accept-removal", milliseconds(5000));
        pause_for(milliseconds(50));
        continue;
      }
      if (state == "held" || state == "failed")
        return fail({"replay_failed", fmt::format("{} ({})", state, reason),
                     another_source ? "the target keeps what it has; to make it what the source is now, start it again with --accept-source" : link->value("next_step", "")});
      const auto number = [&](const char* path) {
        const nlohmann::ordered_json::json_pointer at{std::string(path)};
        return link->contains(at) && link->at(at).is_number() ? link->at(at).get<double>() : 0.0;
      };
      const auto keys = static_cast<std::uint64_t>(number("/bootstrap/records"));
      source = source_of(*link);
      const double since = std::chrono::duration<double>(Clock::now() - began).count();
      if (link->value("caught_up", false) && number("/staleness_seconds") < since) {
        progress.done(fmt::format("replayed {} keys in {}", show_count(keys), show_seconds(since)));
        return exit_ok;
      }
      const double eta = number("/bootstrap/eta_seconds");
      const auto left = link->find("backlog_revisions");
      const bool left_known = left != link->end() && left->is_number();  // null: the source is not heard
      stands = fmt::format("{}{}: {} of {} segments, {} keys{}, backlog {}", state, reason.empty() ? "" : " (" + reason + ")", number("/bootstrap/segments_done"),
                           number("/bootstrap/segments_total"), show_count(keys), eta > 0 ? ", about " + show_seconds(eta) + " left" : "",
                           left_known ? show_count(left->get<std::uint64_t>()) : "not known");
    }
    if (Clock::now() - began >= timeout)
      return fail({"timed_out", "not caught up in time: " + stands, "start it again with a longer --timeout; it goes on where it stands"});
    progress.show(stands);
    pause_for(milliseconds(50));
  }
}

// The copy is done whatever comes of this: what is left is said, with the way to be rid of it.
void let_go(const Context& context, const ReplayOptions& o, ClusterId source, ClusterId target) {
  std::vector<std::string> urls;
  if (!o.compare.empty()) urls.push_back(o.compare);
  if (context.urls_given) urls.insert(urls.end(), context.urls.begin(), context.urls.end());
  for (std::string& url : client_urls_of_feed(o.from, o.ca, o.cert, o.key)) urls.push_back(std::move(url));
  if (const auto dropped = drop_replay_pin(context, urls, {o.name, source, target}); !dropped)
    note(context, fmt::format("the source still holds its log for this replay, until log.pin_age: its pin could not be dropped ({})\n"
                              "  try: zaris feed drop {} --url ADDRESS, with the source's client address; --compare or --url does it next time",
                              dropped.error().what, printable(o.name)));
}

int replay(const Context& context, const ReplayOptions& o) {
  Context at = context;
  at.urls = {o.to};
  const auto scope = o.prefixes.empty() ? Result<Scope>(Scope{}) : Scope::make(o.prefixes);
  if (!scope) return fail(scope.error());
  const auto timeout = context.timeout(std::chrono::hours(24));
  if (!timeout) return fail(timeout.error());
  ClusterId source{};
  bool holding = false;
  {
    at.timeout_text.clear();
    const auto target = at.connect();
    if (!target) return fail(target.error());
    const auto status = (*target)->status().get();
    if (!status) return fail(status.error());
    holding = status->state == "holding";
    const auto links = (*target)->list_links().get();
    if (!links) return fail(links.error());
    const auto begun = std::find_if(links->links.begin(), links->links.end(), [&](const auto& link) { return link.link == o.name; });
    const bool goes_on = begun != links->links.end();
    // The marks of the other scope would go, and what they stand for would be nobody's.
    if (goes_on && begun->scope_text != scope->text())
      return fail({"scope_mismatch", fmt::format("replay {} into {} was begun with another scope, and is not finished", printable(o.name), o.to),
                   fmt::format("finish it with the --prefix that it had, give this one another --name, or give it up: `zaris link drop {} --url {}`, and `zaris kv del` for what it has copied", printable(o.name), o.to)});
    const auto there = holding ? Result<std::uint64_t>(std::uint64_t{0}) : keys_in(**target, *scope);
    if (!there) return fail(there.error());
    if (*there > 0 && !goes_on)
      return fail({"target_not_empty", fmt::format("{} holds {} keys in that scope", o.to, show_count(*there)), "a replay is for an empty region; for one that has data configure a link"});
    // What this replay has brought it may take away again; what others have written it may not.
    if (goes_on && !holding) {
      const auto own = own_records(**target, *scope, begun->source_cluster, 1000);
      if (!own) return fail(own.error());
      if (*own > 0)
        return fail({"target_not_empty", fmt::format("{} holds {}{} records in that scope that replay {} has not brought: they were written since it broke off", o.to, *own >= 1000 ? "at least " : "", show_count(*own), printable(o.name)),
                     fmt::format("to keep them, give the replay up (`zaris link drop {} --url {}`) and import them elsewhere; a replay is for an empty region", printable(o.name), o.to)});
    }
    if (context.dry_run) {
      note(context, fmt::format("would {} the replay of {} into {}", goes_on ? "go on with" : "begin", o.from, o.to));
      return exit_ok;
    }
  }
  {
    Follower follower;
    if (const auto started = follower.start(settings_of(o)); !started) return fail(started.error());
    if (const int code = follow(context, o, follower, *timeout, source); code != exit_ok) return code;
    follower.stop();
  }
  const auto target = at.connect();
  if (!target) return fail(target.error());
  const auto dropped = (*target)->drop_link(o.name, false).get();
  if (!dropped) return fail(dropped.error());
  if (holding)
    if (const auto accepted = (*target)->accept_empty().get(); !accepted) return fail(accepted.error());
  let_go(context, o, source, (*target)->welcome().cluster);
  if (o.compare.empty()) return exit_ok;
  const auto rows = (*target)->digest(*scope, protocol::DigestBy::total).get();
  if (!rows) return fail(rows.error());
  at.urls = {o.compare};
  const auto there = at.connect();
  if (!there) return fail(there.error());
  const auto theirs = (*there)->digest(*scope, protocol::DigestBy::total).get();
  if (!theirs) return fail(theirs.error());
  if ((*rows)[0].count != (*theirs)[0].count || (*rows)[0].digest != (*theirs)[0].digest)
    return fail({"differ", fmt::format("{} keys there, {} here: it was written to meanwhile, or something is short", show_count((*theirs)[0].count), show_count((*rows)[0].count)),
                 "`zaris digest --by slot` with both --url says where"});
  note(context, fmt::format("equal: {} keys, digest {}", show_count((*rows)[0].count), (*rows)[0].digest.hex()));
  return exit_ok;
}

}  // namespace

void add_replay(CLI::App& app, Context& context) {
  auto o = std::make_shared<ReplayOptions>();
  CLI::App* sub = add_verb(app, "replay", "make an empty region a copy of another one, from its feed; its pin at the source is dropped by --compare, --url, or the default client ports of the feed's host",
                           "zaris replay --from zariss://b:7871 --to zaris://a:7861/main --ca ca.crt --cert follower.crt --key follower.key\n"
                           "zaris replay --from zariss://b:7871 --to zaris://a:7861/main --prefix t1: --dry-run");
  sub->add_option("--from", o->from, "the source's feed")->required();
  sub->add_option("--to", o->to, "the target region; it must hold nothing in the scope")->required();
  sub->add_option("--ca", o->ca, "authorities that the source's certificate is checked against (PEM)");
  sub->add_option("--cert", o->cert, "certificate for the source (PEM)");
  sub->add_option("--key", o->key, "its private key (PEM)");
  sub->add_option("--prefix", o->prefixes, "only keys that begin so (repeatable)");
  sub->add_option("--name", o->name, "the replay's name, of the link replay.NAME; the same name goes on where a replay broke off")->capture_default_str();
  sub->add_flag("--accept-source", o->accept_source, "go on although the source lost its data or is another one since this replay broke off: the target becomes what it is now");
  sub->add_option("--compare", o->compare, "the source's client address: compare digests at the end (exit 1 if they differ)");
  sub->callback([&context, o] {
    // Of a name that no follower's link has by mistake: a replay never goes on with one of those.
    if (!o->name.starts_with(link_prefix)) o->name = std::string(link_prefix) + o->name;
    context.action = [&context, o] { return replay(context, *o); };
  });
}

}  // namespace zaris::cli
