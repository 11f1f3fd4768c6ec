// The declarative table behind a daemon's configuration. One row per key: what it is, what it may be, what it means, and
// where its value goes. Loading, checking, --print-config, the JSON Schema and the reference page are made from it, so
// none of them can say something else than the code does.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cluster/record/position.hpp"

namespace zaris::config {

enum class Kind : std::uint8_t {
  text,       // any text
  boolean,    // true | false
  integer,    // a plain number
  duration,   // units.hpp; value in microseconds
  size,       // units.hpp; value in bytes
  ratio,      // units.hpp; value 0 … 1
  choice,     // one of `choices`
  file,       // the name of a file that must be readable at load
  path,       // the name of a file or folder that need not exist yet
  address,    // host:port, [v6]:port; empty or "off": no such listener
  url,        // scheme://…
  id,         // 16 hex digits, as ids are shown
  text_list,  // list of text; a single text counts as a list of one
  slot_list,  // list of "0-8191" or "17"
};

// A value after its text was read. Only what the row's kind names is filled.
struct Value {
  std::string text;
  bool boolean = false;
  std::uint64_t number = 0;     // integer, duration (µs), size (bytes), id
  double ratio = 0;
  std::vector<std::string> list;
  std::vector<std::pair<Slot, Slot>> slots;
};

struct KeyRow {
  std::string key;                 // dotted, relative to its table: "memory.max_bytes"
  Kind kind = Kind::text;
  std::string fallback;            // as it would be written; empty text: nothing
  std::string doc;                 // one or two sentences for the reference page
  std::function<void(void*, const Value&)> set;
  bool required = false;
  bool reload = false;             // taken over by SIGHUP; others need a restart
  std::uint64_t min = 0;           // integer, duration, size
  std::uint64_t max = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::string> choices;
};

struct KeyTable;
// A list of maps: `links`, `feed.access`.
struct ListGroup {
  std::string key;
  std::string doc;
  std::vector<KeyRow> rows;
  std::function<void*(void*)> append;  // (the object) → a new element of it
  bool reload = false;
};

struct KeyTable {
  std::string title;               // "zarisd"
  std::vector<KeyRow> rows;
  std::vector<ListGroup> groups;
};

// Row for a struct T: row<NodeConfig>("region", Kind::text, "local", "…", [](auto& c, const Value& v) { c.region = v.text; })
template <class T, class Set>
KeyRow row(std::string key, Kind kind, std::string fallback, std::string doc, Set set) {
  KeyRow out;
  out.key = std::move(key);
  out.kind = kind;
  out.fallback = std::move(fallback);
  out.doc = std::move(doc);
  out.set = [set](void* object, const Value& value) { set(*static_cast<T*>(object), value); };
  return out;
}
inline KeyRow bounded(KeyRow r, std::uint64_t min, std::uint64_t max) { r.min = min; r.max = max; return r; }
inline KeyRow required(KeyRow r) { r.required = true; return r; }
inline KeyRow reloadable(KeyRow r) { r.reload = true; return r; }
inline KeyRow one_of(KeyRow r, std::vector<std::string> choices) { r.choices = std::move(choices); return r; }

// "memory.max_bytes" → "ZARIS_MEMORY_MAX_BYTES"
[[nodiscard]] std::string environment_name(const std::string& key);

}  // namespace zaris::config
