// kv export, kv import: everything out, everything in.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <deque>
#include <string_view>
#include <unordered_set>

#include "cluster/cli/input.hpp"
#include "cluster/cli/ndjson.hpp"
#include "cluster/cli/verbs.hpp"
#include "cluster/record/record_table.hpp"

namespace zaris::cli {
namespace {

struct TransferOptions {
  std::vector<std::string> prefixes;
  std::string file;
  std::uint64_t batch = 2000;
  bool keep_going = false;
};

// The next page is on its way while this one is written.
int export_all(const Context& context, const TransferOptions& o) {
  const auto scope = o.prefixes.empty() ? Result<Scope>(Scope{}) : Scope::make(o.prefixes);
  if (!scope) return fail(scope.error());
  const auto client = context.connect();
  if (!client) return fail(client.error());
  if (!o.file.empty() && std::freopen(o.file.c_str(), "wb", stdout) == nullptr)
    return fail({"file_unreadable", fmt::format("cannot write {}: {}", o.file, std::strerror(errno)), ""});
  client::ScanLimits limits;
  limits.records = 8192;
  limits.bytes = 2u << 20;
  Progress progress(context);
  std::uint64_t records = 0;
  auto next = (*client)->scan(*scope, std::nullopt, limits);
  std::string out;
  while (true) {
    const auto page = next.get();
    if (!page) return fail(page.error());
    if (page->next) next = (*client)->scan(*scope, page->next, limits);
    out.clear();
    std::size_t at = 0;
    for (std::size_t i = 0; i < row_count(page->table); ++i) {
      const std::size_t length = read_row(page->table, i).length;
      const auto record = parse_record(std::string_view(page->records).substr(at, length));
      if (!record) return fail({"protocol_malformed", "a record that cannot be read: " + record.error().what, ""});
      append_line(out, *record);
      at += length;
    }
    records += row_count(page->table);
    write_out(out);
    progress.show(fmt::format("{} keys", show_count(records)));
    if (!page->next) break;
  }
  if (!flush_out()) return fail({"file_unreadable", "the output could not be written: " + std::string(std::strerror(errno)), "is the disk full?"});
  if (!o.file.empty()) progress.done(fmt::format("exported {} keys", show_count(records)));
  return exit_ok;
}

class Import {
 public:
  Import(const Context& context, const TransferOptions& o, client::Client& client) : context_(context), o_(o), client_(client), progress_(context) {}

  int run(Input& input) {
    Lines lines(input);
    std::string_view line;
    while (true) {
      const auto more = lines.next(line);
      if (!more) return stop_reading(more.error());
      if (!*more) break;
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      if (line.empty()) continue;
      auto row = read_line(line);
      if (!row) {
        row.error().what = fmt::format("line {}: {}", lines.number(), row.error().what);
        if (!o_.keep_going) return stop(row.error());
        refuse(row.error());
        continue;
      }
      // What is sent again must not overtake a later row of its key.
      const std::size_t hash = std::hash<std::string_view>{}(row->key);
      if (keys_under_way_.contains(hash)) {
        send();
        if (const auto code = collect(0)) return *code;
      }
      keys_under_way_.insert(hash);
      batch_.hashes.push_back(hash);
      batch_.numbers.push_back(lines.number());
      batch_.bytes += row->key.size() + row->value.size();
      client::Operation& one = batch_.operations.emplace_back();
      one.opcode = row->deleted ? protocol::Opcode::del : protocol::Opcode::put;
      one.key = std::move(row->key);
      one.value = std::move(row->value);
      one.expires_us = row->expires_us;
      if (batch_.operations.size() >= o_.batch || batch_.bytes > (4u << 20)) {
        send();
        if (const auto code = collect(in_flight_max)) return *code;
      }
    }
    send();
    if (const auto code = collect(0)) return *code;
    progress_.done(summary());
    if (not_met_ > 0 && refused_ == 0)
      return fail({"durability_not_met", fmt::format("{} of {} rows are written at their owners, but the copies that were asked for did not confirm them in time", show_count(not_met_), show_count(done_)),
                   "they stand; check the replicas, and import again to be sure"});
    if (refused_ > 0) return fail({"partly_done", fmt::format("{} of {} rows were refused; the first: {}", refused_, refused_ + done_, first_.text()), ""});
    return exit_ok;
  }

 private:
  static constexpr std::size_t in_flight_max = 12;

  struct Batch {
    std::vector<client::Operation> operations;
    std::vector<std::uint64_t> numbers;        // of the lines that they are about
    std::vector<std::size_t> hashes;           // of their keys
    std::size_t bytes = 0;
  };
  struct Sent {
    std::future<std::vector<client::Outcome>> outcomes;
    std::vector<std::uint64_t> numbers;
    std::vector<std::size_t> hashes;
  };

  void send() {
    if (batch_.operations.empty()) return;
    flight_.push_back({client_.bulk(std::move(batch_.operations)), std::move(batch_.numbers), std::move(batch_.hashes)});
    batch_ = {};
  }

  // Waits until at most `most` are under way. A status: give up with it.
  std::optional<int> collect(std::size_t most) {
    while (flight_.size() > most) {
      const auto outcomes = flight_.front().outcomes.get();
      const auto numbers = std::move(flight_.front().numbers);
      for (const std::size_t hash : flight_.front().hashes) keys_under_way_.erase(hash);
      flight_.pop_front();
      for (std::size_t i = 0; i < outcomes.size(); ++i) {
        const client::Outcome& outcome = outcomes[i];
        if (!outcome.error) {
          ++done_;  // a delete of what is not there is done as well
          if (outcome.status == Status::durability_not_met) ++not_met_;
        } else {
          Error why = *outcome.error;
          why.what = fmt::format("line {}: {}", numbers[i], why.what);
          refuse(why);
        }
      }
      progress_.show(summary());
      if (refused_ > 0 && !o_.keep_going) return stop(first_);
    }
    return std::nullopt;
  }

  // The rest of the input is not known: what it would have said is not done, and nobody may take this for the whole.
  int stop_reading(Error why) {
    settle();
    why.what += fmt::format("; {} rows had been imported", show_count(done_));
    return stop(why);
  }

  void settle() {
    while (!flight_.empty()) {
      for (const auto& outcome : flight_.front().outcomes.get()) done_ += outcome.error ? 0 : 1;
      flight_.pop_front();
    }
  }

  // Ends early: what was sent is waited for, and said.
  int stop(const Error& why) {
    settle();
    progress_.done(summary() + (batch_.operations.empty() ? "" : fmt::format("; {} rows read and not sent", batch_.operations.size())));
    const int code = fail(why);
    return done_ > 0 && code == exit_refused ? exit_partly : code;
  }

  void refuse(const Error& why) {
    if (refused_++ == 0) first_ = why;
  }

  std::string summary() const {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
    return fmt::format("imported {} rows, {}/s", show_count(done_), show_count(static_cast<std::uint64_t>(static_cast<double>(done_) / std::max(seconds, 0.001))));
  }

  const Context& context_;
  const TransferOptions& o_;
  client::Client& client_;
  Progress progress_;
  Batch batch_;
  std::deque<Sent> flight_;
  std::unordered_set<std::size_t> keys_under_way_;   // hashes: in the batch or sent
  std::uint64_t done_ = 0, refused_ = 0;
  std::uint64_t not_met_ = 0;                 // written, and not confirmed by as many copies as was asked for
  Error first_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

int import_all(const Context& context, const TransferOptions& o) {
  auto input = Input::open(o.file);
  if (!input) return fail(input.error());
  auto options = context.url_options();
  if (!options) return fail(options.error());
  options->retry_unknown = options->retry_undurable = true;  // a put of the same value twice is what an import is
  if (context.timeout_text.empty()) options->timeout = std::chrono::seconds(60);
  const auto client = client::Client::connect(std::move(*options));
  if (!client) return fail(client.error());
  return Import(context, o, **client).run(*input);
}

}  // namespace

void add_transfer(CLI::App& kv, Context& context) {
  const auto verb = [&](const std::string& name, const std::string& description, const std::string& examples, auto act) {
    auto o = std::make_shared<TransferOptions>();
    CLI::App* sub = add_verb(kv, name, description, examples);
    sub->callback([&context, o, act] { context.action = [&context, o, act] { return act(context, *o); }; });
    return std::pair{sub, o};
  };
  {
    auto [sub, o] = verb("export", "every key as a line of JSON, in (slot, key) order; two equal stores give the same bytes",
                         "zaris kv export > a.ndjson\nzaris kv export --prefix t1: --file t1.ndjson", [](auto& c, auto& options) { return export_all(c, options); });
    sub->add_option("--prefix", o->prefixes, "only keys that begin so (repeatable)");
    sub->add_option("--file", o->file, "write to a file instead of standard output");
  }
  {
    auto [sub, o] = verb("import", "write what lines of JSON say, as export gives them; a row with \"deleted\":true deletes",
                         "zaris kv import a.ndjson\nzaris kv export --url zaris://a/main | zaris kv import --url zaris://b/main",
                         [](auto& c, auto& options) { return import_all(c, options); });
    sub->add_option("FILE", o->file, "a file; without one, or for -, standard input");
    sub->add_option("--batch", o->batch, "rows per bulk")->check(CLI::Range(std::uint64_t{1}, std::uint64_t{65'536}));
    sub->add_flag("--keep-going", o->keep_going, "go on past rows that are refused (exit 11 at the end)");
  }
}

}  // namespace zaris::cli
