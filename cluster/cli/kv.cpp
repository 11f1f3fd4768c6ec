// kv get|put|del|cas|ttl|touch|scan
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <nlohmann/json.hpp>

#include "cluster/base/base64.hpp"
#include "cluster/cli/input.hpp"
#include "cluster/cli/ndjson.hpp"
#include "cluster/cli/verbs.hpp"
#include "cluster/record/record_table.hpp"

namespace zaris::cli {
namespace {

using nlohmann::ordered_json;

std::string show(ItemToken token) { return fmt::format("{}:{:08x}", token.item_version, token.tag); }

Result<ItemToken> parse_token(const std::string& text) {
  ItemToken token;
  const auto colon = text.find(':');
  const char* end = text.data() + text.size();
  if (colon != std::string::npos) {
    const auto version = std::from_chars(text.data(), text.data() + colon, token.item_version);
    const auto tag = std::from_chars(text.data() + colon + 1, end, token.tag, 16);
    if (version.ec == std::errc{} && version.ptr == text.data() + colon && tag.ec == std::errc{} && tag.ptr == end) return token;
  }
  return failure("token_invalid", "'" + printable(text) + "' is no item token", "as `zaris kv get -o json` shows it: 3:01020304");
}

std::uint64_t now_us() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count());
}

Error not_found(const std::string& key) { return {"not_found", "no key " + printable(key), ""}; }

// What the writing verbs have in common.
struct KvOptions {
  std::string key, value, file, token, ttl, expires_at, durability, prefix;
  const CLI::Option* value_option = nullptr;   // whether VALUE was given: "" is a value too
  bool base64 = false, if_absent = false, persist = false, all = false, keys_only = false;
  std::uint64_t limit = 0;
  std::vector<std::string> keys;
};

Result<std::string> as_bytes(const KvOptions& o, const std::string& text) {
  if (!o.base64) return text;
  std::string bytes;
  if (!from_base64(text, bytes)) return failure("input_invalid", "'" + printable(text) + "' is not base64", "without --base64 it is taken as it stands");
  return bytes;
}

// Above the largest limits.value of any region.
constexpr std::size_t value_bytes_max = 16u << 20;

// Only what was asked for: a key must not be emptied because a VALUE was forgotten.
Result<std::string> value_of(const KvOptions& o) {
  const bool given = o.value_option->count() > 0;
  if (given && !o.file.empty()) return failure("usage", "VALUE and --file together", "one of them");
  if (!given && o.file.empty()) return failure("usage", "which value?", "VALUE, --file FILE, or - for standard input");
  if (o.file.empty() && o.value != "-") return as_bytes(o, o.value);
  auto input = Input::open(o.file);
  if (!input) return tl::unexpected(input.error());
  return read_all(*input, value_bytes_max);
}

Result<Durability> parse_durability(const std::string& text) {
  static constexpr std::pair<std::string_view, Durability> all[] = {
      {"", Durability::store_default}, {"owner", Durability::owner}, {"replica", Durability::replica}, {"majority", Durability::majority}, {"all", Durability::all}};
  for (const auto& [name, value] : all)
    if (text == name) return value;
  return failure("usage", "unknown durability '" + text + "'", "owner, replica, majority or all");
}

Result<std::uint64_t> parse_time(const std::string& text) {
  std::uint64_t us = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, us);
  if (read.ec == std::errc{} && read.ptr == end) return us;
  return failure("usage", "--expires-at " + printable(text) + " is no time", "microseconds since 1970 UTC, below 2^64: 1800000000000000");
}

// 0: never.
Result<std::uint64_t> expiry_of(const KvOptions& o) {
  if (!o.expires_at.empty()) return parse_time(o.expires_at);
  if (o.ttl.empty()) return 0;
  const auto ttl = client::parse_duration(o.ttl);
  if (!ttl) return tl::unexpected(ttl.error());
  if (ttl->count() == 0) return failure("usage", "--ttl " + printable(o.ttl) + " is no time to live", "at least 1ms; `zaris kv del` deletes");
  return now_us() + static_cast<std::uint64_t>(ttl->count()) * 1000;
}

int print_written(const Context& context, const std::string& key, const client::Written& written) {
  if (written.status == Status::not_found) return fail(not_found(key));
  if (written.status == Status::conflict)
    return fail({"conflict", "key " + printable(key) + " stands at token " + show(written.token), "read it again with `zaris kv get -o json`"});
  if (context.format == Format::table || context.format == Format::name) {
    write_out(show(written.token) + "\n");
  } else {
    print_document(context.format, {{"key", to_base64(key)}, {"token", show(written.token)}, {"item_version", written.token.item_version},
                                    {"segment", written.segment.value()}, {"position", to_string(written.position)}});
  }
  if (written.status == Status::durability_not_met)
    return fail({"durability_not_met", "written at the owner, but the copies that were asked for did not confirm it in time", "it stands; check the replicas"});
  return exit_ok;
}

int get(const Context& context, const KvOptions& o) {
  const auto key = as_bytes(o, o.key);
  if (!key) return fail(key.error());
  const auto client = context.connect();
  if (!client) return fail(client.error());
  const auto item = (*client)->get(*key).get();
  if (!item) return fail(item.error());
  if (item->status == Status::not_found) return fail(not_found(*key));
  if (context.format == Format::table || context.format == Format::name) {
    write_out(o.base64 ? to_base64(item->value) : item->value);
    if (o.base64 || ::isatty(STDOUT_FILENO) != 0) write_out("\n");
  } else {
    print_document(context.format, {{"key", to_base64(*key)}, {"value", to_base64(item->value)}, {"token", show(item->token)},
                                    {"item_version", item->token.item_version}, {"expires_us", item->expires_us}});
  }
  return exit_ok;
}

int put(const Context& context, const KvOptions& o, bool swap) {
  const auto key = as_bytes(o, o.key);
  if (!key) return fail(key.error());
  const auto value = value_of(o);
  if (!value) return fail(value.error());
  const auto expires = expiry_of(o);
  if (!expires) return fail(expires.error());
  const auto durability = parse_durability(o.durability);
  if (!durability) return fail(durability.error());
  client::WriteOptions write;
  write.expires_us = *expires;
  write.durability = *durability;
  if (o.if_absent) write.condition = client::Condition::must_be_absent();
  if (swap) {
    const auto token = parse_token(o.token);
    if (!token) return fail(token.error());
    write.condition = client::Condition::must_be(*token);
  }
  const auto client = context.connect();
  if (!client) return fail(client.error());
  const auto written = (*client)->put(*key, *value, write).get();
  if (!written) return fail(written.error());
  return print_written(context, *key, *written);
}

// Every key, or those with a prefix, page by page.
int del_prefix(const Context& context, const KvOptions& o) {
  const auto prefix = as_bytes(o, o.prefix);
  if (!prefix) return fail(prefix.error());
  const auto scope = o.all ? Result<Scope>(Scope{}) : Scope::make({*prefix});
  if (!scope) return fail(scope.error());
  const auto client = context.connect();
  if (!client) return fail(client.error());
  if (!context.dry_run)
    if (const auto sure = context.confirm("This deletes every key" + (o.all ? "" : " with the prefix " + printable(*prefix)) + " from " + context.urls[0] + "."); !sure)
      return fail(sure.error());
  std::uint64_t found = 0, failed = 0;
  std::optional<SlotKey> after;
  client::ScanLimits limits;
  limits.keys_only = true;
  limits.records = 8192;
  do {
    const auto page = (*client)->scan(*scope, after, limits).get();
    if (!page) return fail(page.error());
    std::vector<client::Operation> deletes;
    std::size_t at = 0;
    for (std::size_t i = 0; i < row_count(page->table); ++i) {
      const std::size_t length = read_row(page->table, i).length;
      client::Operation one;
      one.opcode = protocol::Opcode::del;
      one.key = page->records.substr(at, length);
      deletes.push_back(std::move(one));
      at += length;
    }
    found += deletes.size();
    if (!context.dry_run)
      for (const auto& outcome : (*client)->bulk(std::move(deletes)).get()) failed += outcome.error ? 1 : 0;
    after = page->next;
  } while (after);
  note(context, fmt::format("{} {} keys", context.dry_run ? "would delete" : "deleted", show_count(found - failed)));
  if (failed > 0) return fail({"partly_done", fmt::format("{} keys could not be deleted", failed), "repeat it"});
  return exit_ok;
}

int del(const Context& context, const KvOptions& o) {
  if (o.all && !o.prefix.empty()) return fail({"usage", "--prefix and --all together", "one of them"});
  if (!o.prefix.empty() || o.all) return o.keys.empty() ? del_prefix(context, o) : fail({"usage", "keys and --prefix or --all together", "one of them"});
  if (o.keys.empty()) return fail({"usage", "which key?", "zaris kv del KEY…, --prefix, or --all"});
  client::WriteOptions write;
  if (!o.token.empty()) {
    const auto token = parse_token(o.token);
    if (!token) return fail(token.error());
    write.condition = client::Condition::must_be(*token);
  }
  const auto client = context.connect();
  if (!client) return fail(client.error());
  int worst = exit_ok;
  for (const std::string& text : o.keys) {
    const auto key = as_bytes(o, text);
    if (!key) return fail(key.error());
    const auto written = (*client)->del(*key, write).get();
    const int code = written ? print_written(context, *key, *written) : fail(written.error());
    worst = std::max(worst, code);
  }
  return worst;
}

int ttl(const Context& context, const KvOptions& o) {
  const auto key = as_bytes(o, o.key);
  if (!key) return fail(key.error());
  const auto client = context.connect();
  if (!client) return fail(client.error());
  const auto item = (*client)->time_to_live(*key).get();
  if (!item) return fail(item.error());
  if (item->status == Status::not_found) return fail(not_found(*key));
  const std::uint64_t now = now_us();
  const double left = item->expires_us == 0 ? -1 : item->expires_us <= now ? 0 : static_cast<double>(item->expires_us - now) / 1e6;
  if (context.format == Format::table || context.format == Format::name) {
    write_out(item->expires_us == 0 ? "never\n" : fmt::format("{:.3f}\n", left));
  } else {
    print_document(context.format, {{"key", to_base64(*key)}, {"expires_us", item->expires_us}, {"seconds_left", left < 0 ? ordered_json(nullptr) : ordered_json(left)}});
  }
  return exit_ok;
}

int touch(const Context& context, const KvOptions& o) {
  const bool until = !o.ttl.empty() || !o.expires_at.empty();
  if (o.persist == until) return fail({"usage", "until when?", "one of --ttl, --expires-at, --persist"});
  const auto key = as_bytes(o, o.key);
  if (!key) return fail(key.error());
  const auto expires = expiry_of(o);
  if (!expires) return fail(expires.error());
  const auto client = context.connect();
  if (!client) return fail(client.error());
  const auto written = (*client)->touch(*key, o.persist ? 0 : *expires).get();
  if (!written) return fail(written.error());
  return print_written(context, *key, *written);
}

int scan(const Context& context, const KvOptions& o) {
  auto prefix = as_bytes(o, o.prefix);
  if (!prefix) return fail(prefix.error());
  const auto scope = prefix->empty() ? Result<Scope>(Scope{}) : Scope::make({*prefix});
  if (!scope) return fail(scope.error());
  const auto client = context.connect();
  if (!client) return fail(client.error());
  client::ScanLimits limits;
  limits.keys_only = o.keys_only;
  if (o.limit > 0 && o.limit < limits.records) limits.records = static_cast<std::uint32_t>(o.limit);
  std::optional<SlotKey> after;
  std::uint64_t shown = 0;
  ordered_json rows = ordered_json::array();
  const bool text = context.format == Format::table || context.format == Format::wide || context.format == Format::name;
  do {
    const auto page = (*client)->scan(*scope, after, limits).get();
    if (!page) return fail(page.error());
    std::size_t at = 0;
    std::string out;
    for (std::size_t i = 0; i < row_count(page->table) && (o.limit == 0 || shown < o.limit); ++i, ++shown) {
      const std::string_view bytes = std::string_view(page->records).substr(at, read_row(page->table, i).length);
      at += bytes.size();
      RecordView record;
      if (o.keys_only) {
        record.key = bytes;
      } else {
        const auto parsed = parse_record(bytes);
        if (!parsed) return fail({"protocol_malformed", "a record that cannot be read: " + parsed.error().what, ""});
        record = *parsed;
      }
      if (text) {
        out += o.base64 ? to_base64(record.key) : printable(record.key, 1024);
        if (!o.keys_only && context.format != Format::name) {
          out += '\t';
          out += o.base64 ? to_base64(record.value) : printable(record.value, context.format == Format::wide ? 4096 : 64);
          if (context.format == Format::wide) out += fmt::format("\t{}\t{}", show(record.token()), record.expires_us);
        }
        out += '\n';
      } else if (context.format == Format::ndjson && !o.keys_only) {
        append_line(out, record);
      } else {
        ordered_json row{{"key", to_base64(record.key)}};
        if (!o.keys_only) {
          row["value"] = to_base64(record.value);
          row["item_version"] = record.item_version;
          row["expires_us"] = record.expires_us;
          row["token"] = show(record.token());
        }
        if (context.format == Format::ndjson) {
          out += row.dump() + "\n";
        } else {
          rows.push_back(std::move(row));
        }
      }
    }
    write_out(out);
    after = page->next;
  } while (after && (o.limit == 0 || shown < o.limit));
  if (!text && context.format != Format::ndjson) print_document(context.format, rows);
  return exit_ok;
}

}  // namespace

void add_kv(CLI::App& app, Context& context) {
  CLI::App* kv = add_verb(app, "kv", "read and write keys", "zaris kv put greeting hello\nzaris kv get greeting\nzaris kv export > a.ndjson");
  kv->require_subcommand(1);
  const auto verb = [&](const std::string& name, const std::string& description, const std::string& examples, auto act) {
    auto o = std::make_shared<KvOptions>();
    CLI::App* sub = add_verb(*kv, name, description, examples);
    sub->add_flag("--base64", o->base64, "keys and values are given, and shown, in base64");
    sub->callback([&context, o, act] { context.action = [&context, o, act] { return act(context, *o); }; });
    return std::pair{sub, o};
  };
  const auto key = [](auto& sub) { sub.first->add_option("KEY", sub.second->key, "the key; any bytes")->required(); };
  const auto writes = [](auto& sub) {
    sub.second->value_option = sub.first->add_option("VALUE", sub.second->value, "the value, or - for standard input; this or --file must be given");
    sub.first->add_option("--file", sub.second->file, "take the value from a file, at most 16 MiB");
    CLI::Option* ttl = sub.first->add_option("--ttl", sub.second->ttl, "expire after this long (10s, 5m, 3d)");
    sub.first->add_option("--expires-at", sub.second->expires_at, "expire at this time, microseconds since 1970 UTC")->excludes(ttl);
    sub.first->add_option("--durability", sub.second->durability, "owner, replica, majority or all; else the store's own");
  };
  {
    auto sub = verb("get", "print a value", "zaris kv get greeting\nzaris kv get greeting -o json", [](auto& c, auto& o) { return get(c, o); });
    key(sub);
  }
  {
    auto sub = verb("put", "write a value and print its token", "zaris kv put greeting hello --ttl 1h\nzaris kv put photo --file photo.jpg\nzaris kv put lock me --if-absent",
                    [](auto& c, auto& o) { return put(c, o, false); });
    key(sub);
    writes(sub);
    sub.first->add_flag("--if-absent", sub.second->if_absent, "only where no such key stands (else exit 9)");
  }
  {
    auto sub = verb("cas", "write a value only over the one with this token", "zaris kv cas greeting bye --token 3:01020304", [](auto& c, auto& o) { return put(c, o, true); });
    key(sub);
    writes(sub);
    sub.first->add_option("--token", sub.second->token, "what must stand there now (else exit 9)")->required();
  }
  {
    auto sub = verb("del", "delete keys", "zaris kv del greeting\nzaris kv del --prefix t1: --dry-run", [](auto& c, auto& o) { return del(c, o); });
    sub.first->add_option("KEY", sub.second->keys, "keys");
    sub.first->add_option("--prefix", sub.second->prefix, "every key that begins so; asks first");
    sub.first->add_flag("--all", sub.second->all, "every key; asks first");
    sub.first->add_option("--token", sub.second->token, "only while this stands there (else exit 9)");
  }
  {
    auto sub = verb("ttl", "print for how many seconds a key will live", "zaris kv ttl session:1", [](auto& c, auto& o) { return ttl(c, o); });
    key(sub);
  }
  {
    auto sub = verb("touch", "change when a key expires", "zaris kv touch session:1 --ttl 30m\nzaris kv touch session:1 --persist", [](auto& c, auto& o) { return touch(c, o); });
    key(sub);
    CLI::Option* ttl = sub.first->add_option("--ttl", sub.second->ttl, "after this long (10s, 5m, 3d)");
    sub.first->add_option("--expires-at", sub.second->expires_at, "at this time, microseconds since 1970 UTC")->excludes(ttl);
    sub.first->add_flag("--persist", sub.second->persist, "never");
  }
  {
    auto sub = verb("scan", "list keys in (slot, key) order", "zaris kv scan --prefix t1: --limit 10\nzaris kv scan --keys-only -o ndjson", [](auto& c, auto& o) { return scan(c, o); });
    sub.first->add_option("--prefix", sub.second->prefix, "only keys that begin so");
    sub.first->add_option("--limit", sub.second->limit, "at most this many")->check(CLI::PositiveNumber);
    sub.first->add_flag("--keys-only", sub.second->keys_only, "no values");
  }
  add_transfer(*kv, context);
}

}  // namespace zaris::cli
