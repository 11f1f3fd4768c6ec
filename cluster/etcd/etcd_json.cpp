#include "cluster/etcd/etcd_json.hpp"

#include <charconv>
#include <nlohmann/json.hpp>

#include "cluster/base/json_shape.hpp"
#include "cluster/base/base64.hpp"

namespace zaris::etcd {
namespace {

using nlohmann::json;

std::string text(std::int64_t number) { return std::to_string(number); }

// The first key behind all that begin with `prefix`; of an empty one, and one of 0xff only: "\0", which says "to the end".
std::string end_of_prefix(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff) prefix.pop_back();
  if (prefix.empty()) return std::string(1, '\0');
  prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

void put_keys(json& to, const Keys& keys, const std::string& after = {}) {
  const bool go_on = !after.empty() && after >= keys.key;
  std::string first = go_on ? after + '\0' : keys.key;
  if (first.empty()) first.assign(1, '\0');
  to["key"] = to_base64(first);
  if (keys.prefix) {
    to["range_end"] = to_base64(end_of_prefix(keys.key));
  } else if (go_on) {
    to["range_end"] = to["key"];  // behind its only key: nothing
  }
}

json to_json(const RangeRequest& request) {
  json out;
  put_keys(out, request.keys, request.after);
  out["limit"] = text(request.limit);
  if (request.at != EtcdRevision{}) out["revision"] = text(request.at.value());
  if (request.keys_only) out["keys_only"] = true;
  return out;
}

json to_json(const Compare& guard) {
  json out{{"key", to_base64(guard.key)}};
  switch (guard.is) {
    case Compare::Is::equal: out["result"] = "EQUAL"; break;
    case Compare::Is::not_equal: out["result"] = "NOT_EQUAL"; break;
    case Compare::Is::less: out["result"] = "LESS"; break;
    case Compare::Is::greater: out["result"] = "GREATER"; break;
  }
  switch (guard.target) {
    case Compare::Target::create_revision:
      out["target"] = "CREATE";
      out["create_revision"] = text(guard.number);
      break;
    case Compare::Target::mod_revision:
      out["target"] = "MOD";
      out["mod_revision"] = text(guard.number);
      break;
    case Compare::Target::version:
      out["target"] = "VERSION";
      out["version"] = text(guard.number);
      break;
    case Compare::Target::value:
      out["target"] = "VALUE";
      out["value"] = to_base64(guard.value);
      break;
  }
  return out;
}

struct OperationJson {
  json operator()(const Put& put) const {
    json out{{"key", to_base64(put.key)}, {"value", to_base64(put.value)}};
    if (put.lease != LeaseId{}) out["lease"] = text(put.lease.value());
    return {{"request_put", std::move(out)}};
  }
  json operator()(const Delete& removal) const {
    json out;
    put_keys(out, removal.keys);
    return {{"request_delete_range", std::move(out)}};
  }
  json operator()(const RangeRequest& read) const { return {{"request_range", to_json(read)}}; }
};

json to_json(const std::vector<Operation>& operations) {
  json out = json::array();
  for (const Operation& operation : operations) out.push_back(std::visit(OperationJson{}, operation));
  return out;
}

// Reads fields of one object; what is absent has its default, what is of another kind makes the whole unreadable.
class Fields {
 public:
  Fields(const json& object, bool& good) : object_(object), good_(good) {
    if (!object.is_object()) good_ = false;
  }
  [[nodiscard]] const json* find(const char* key) const {
    if (!object_.is_object()) return nullptr;
    const auto at = object_.find(key);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }
  std::int64_t number(const char* key) {
    const json* field = find(key);
    if (field == nullptr) return 0;
    if (field->is_number_integer()) return field->get<std::int64_t>();
    std::int64_t out = 0;
    if (field->is_string()) {
      const auto& digits = field->get_ref<const std::string&>();
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
      if (error == std::errc{} && end == digits.data() + digits.size()) return out;
    }
    good_ = false;
    return 0;
  }
  bool flag(const char* key) {
    const json* field = find(key);
    if (field == nullptr) return false;
    if (field->is_boolean()) return field->get<bool>();
    good_ = false;
    return false;
  }
  std::string string(const char* key) {
    const json* field = find(key);
    if (field == nullptr) return {};
    if (field->is_string()) return field->get<std::string>();
    good_ = false;
    return {};
  }
  std::string bytes(const char* key) {
    std::string out;
    if (!from_base64(string(key), out)) good_ = false;
    return out;
  }
  [[nodiscard]] const json& array(const char* key) {
    static const json none = json::array();
    const json* field = find(key);
    if (field == nullptr) return none;
    if (field->is_array()) return *field;
    good_ = false;
    return none;
  }

 private:
  const json& object_;
  bool& good_;
};

Row read_row(const json& from, bool& good) {
  Fields fields(from, good);
  Row out;
  out.key = fields.bytes("key");
  out.value = fields.bytes("value");
  out.create_revision = EtcdRevision{fields.number("create_revision")};
  out.mod_revision = EtcdRevision{fields.number("mod_revision")};
  out.version = fields.number("version");
  out.lease = LeaseId{fields.number("lease")};
  return out;
}

EtcdRevision read_revision(Fields& fields, bool& good) {
  const json* header = fields.find("header");
  if (header == nullptr) return {};
  return EtcdRevision{Fields(*header, good).number("revision")};
}

template <class Out>
void read_range(const json& from, Out& out, bool& good) {
  Fields fields(from, good);
  for (const json& row : fields.array("kvs")) out.rows.push_back(read_row(row, good));
  out.more = fields.flag("more");
}

// No answer of etcd's is nested deeper or has more values in so few bytes: a body of megabytes of brackets would become hundreds of them.
json parse(std::string_view body) {
  constexpr std::size_t depth_max = 16, values_free = 1024, bytes_of_a_value = 8;
  const JsonShape shape = json_shape(body);
  if (shape.depth > depth_max || shape.values > values_free + body.size() / bytes_of_a_value) return json::value_t::discarded;
  return json::parse(body, nullptr, false);
}

// Every answer of etcd's has a header, and that a revision above 0.
bool begin(const json& body, Answered& out, bool& good) {
  Fields fields(body, good);
  out.revision = read_revision(fields, good);
  out.outcome = Outcome::ok;
  return good && out.revision.value() > 0;
}

}  // namespace

// ---- requests -----------------------------------------------------------------------------------------------------

std::string encode(const RangeRequest& request) { return to_json(request).dump(); }

std::string encode(const TxnRequest& request) {
  json guards = json::array();
  for (const Compare& guard : request.guards) guards.push_back(to_json(guard));
  return json{{"compare", std::move(guards)}, {"success", to_json(request.then)}, {"failure", to_json(request.otherwise)}}.dump();
}

std::string encode(const WatchRequest& request) {
  json create{{"progress_notify", true}, {"fragment", true}};  // fragments: lines of bounded length; 3.4 may forget it for the first one
  put_keys(create, request.keys);
  if (request.from != EtcdRevision{}) create["start_revision"] = text(request.from.value());
  return json{{"create_request", std::move(create)}}.dump();
}

std::string encode_grant(std::chrono::seconds ttl, LeaseId id) { return json{{"TTL", text(ttl.count())}, {"ID", text(id.value())}}.dump(); }
std::string encode_lease(LeaseId id) { return json{{"ID", text(id.value())}}.dump(); }
std::string encode_time_to_live(LeaseId id) { return json{{"ID", text(id.value())}, {"keys", true}}.dump(); }
std::string encode_compact(EtcdRevision revision) { return json{{"revision", text(revision.value())}}.dump(); }

std::string encode_login(const std::string& user, const std::string& password) {
  return json{{"name", user}, {"password", password}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

// ---- answers ------------------------------------------------------------------------------------------------------

bool decode(std::string_view body, RangeAnswer& out) {
  const json parsed = parse(body);
  bool good = true;
  if (!begin(parsed, out, good)) return false;
  read_range(parsed, out, good);
  return good;
}

bool decode(std::string_view body, TxnAnswer& out) {
  const json parsed = parse(body);
  bool good = true;
  if (!begin(parsed, out, good)) return false;
  Fields fields(parsed, good);
  if (!fields.flag("succeeded")) out.outcome = Outcome::compare_failed;
  for (const json& response : fields.array("responses")) {
    OperationAnswer answer;
    Fields one(response, good);
    if (const json* range = one.find("response_range")) read_range(*range, answer, good);
    if (const json* removal = one.find("response_delete_range")) answer.deleted = Fields(*removal, good).number("deleted");
    out.answers.push_back(std::move(answer));
  }
  return good;
}

bool decode(std::string_view body, Answered& out) {
  const json parsed = parse(body);
  bool good = true;
  return begin(parsed, out, good);
}

bool decode_grant(std::string_view body, LeaseAnswer& out) {
  const json parsed = parse(body);
  bool good = true;
  if (!begin(parsed, out, good)) return false;
  Fields fields(parsed, good);
  out.lease = LeaseId{fields.number("ID")};
  out.ttl = std::chrono::seconds(fields.number("TTL"));
  return good && out.lease != LeaseId{} && out.ttl.count() > 0;
}

bool decode_keep_alive(std::string_view body, LeaseAnswer& out) {
  const json parsed = parse(body.substr(0, body.find('\n')));
  bool good = true;
  Fields stream(parsed, good);
  const json* result = stream.find("result");
  if (result == nullptr || !begin(*result, out, good)) return false;
  Fields fields(*result, good);
  out.lease = LeaseId{fields.number("ID")};
  out.ttl = std::chrono::seconds(fields.number("TTL"));
  if (out.ttl.count() <= 0) out.outcome = Outcome::lease_gone;
  return good && out.lease != LeaseId{};
}

bool decode(std::string_view body, TimeToLiveAnswer& out) {
  const json parsed = parse(body);
  bool good = true;
  if (!begin(parsed, out, good)) return false;
  Fields fields(parsed, good);
  out.left = std::chrono::seconds(fields.number("TTL"));
  out.granted = std::chrono::seconds(fields.number("grantedTTL"));
  for (const json& key : fields.array("keys")) {
    std::string bytes;
    if (!key.is_string() || !from_base64(key.get_ref<const std::string&>(), bytes)) return false;
    out.keys.push_back(std::move(bytes));
  }
  if (out.left.count() < 0) {  // −1: there is no such lease
    out.left = std::chrono::seconds(0);
    out.outcome = Outcome::lease_gone;
  }
  return good;
}

bool decode_login(std::string_view body, std::string& token) {
  const json parsed = parse(body);
  bool good = true;
  token = Fields(parsed, good).string("token");
  // It goes into a header as it is.
  for (const char c : token) good = good && c > 0x20 && c < 0x7f;
  return good && !token.empty() && token.size() <= 4096;
}

ServerError read_error(int http, std::string_view body) {
  ServerError out{http, -1, {}};
  const json parsed = parse(body);
  bool good = true;
  Fields outer(parsed, good);
  const json* nested = outer.find("error");
  const bool stream = nested != nullptr && nested->is_object();
  Fields fields(stream ? *nested : parsed, good);
  const char* number_field = stream ? "grpc_code" : "code";
  if (!good || fields.find(number_field) == nullptr) {
    out.message = printable(body, 120);
    return out;
  }
  const std::int64_t number = fields.number(number_field);
  const std::string message = fields.string("message");
  out.code = good && number >= 0 && number <= 16 ? static_cast<int>(number) : -1;
  out.message = printable(message, 256);
  return out;
}

std::optional<ServerError> stream_error(std::string_view body) {
  const json parsed = parse(body.substr(0, body.find('\n')));
  if (!parsed.is_object() || !parsed.contains("error")) return std::nullopt;
  return read_error(200, body.substr(0, body.find('\n')));
}

bool decode(std::string_view line, WatchLine& out) {
  const json parsed = parse(line);
  bool good = true;
  Fields stream(parsed, good);
  if (stream.find("error") != nullptr) {
    out.error = read_error(200, line);
    return true;
  }
  const json* result = stream.find("result");
  if (result == nullptr) return false;
  Fields fields(*result, good);
  out.revision = read_revision(fields, good);
  out.created = fields.flag("created");
  out.canceled = fields.flag("canceled");
  out.fragment = fields.flag("fragment");
  out.compact_revision = EtcdRevision{fields.number("compact_revision")};
  out.cancel_reason = printable(fields.string("cancel_reason"), 256);
  for (const json& event : fields.array("events")) {
    Fields one(event, good);
    const std::string kind = one.string("type");
    const json* row = one.find("kv");
    if (row == nullptr || (!kind.empty() && kind != "PUT" && kind != "DELETE")) return false;
    out.events.push_back({kind == "DELETE" ? Event::Kind::removed : Event::Kind::put, read_row(*row, good)});
    if (out.events.back().row.mod_revision.value() <= 0) return false;
  }
  return good;
}

}  // namespace zaris::etcd
