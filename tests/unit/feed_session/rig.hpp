// A store, a source session and a reader session wired to each other without a network, and a model of what the reader's
// user would hold: enough to say "it has everything, in order, once".
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "cluster/placement/slot.hpp"
#include "cluster/store/store.hpp"
#include "feed/session/reader.hpp"
#include "feed/session/source.hpp"

namespace zaris::feed {

inline constexpr ClusterId source_cluster{0x5000};

// The user of a reader: keeps what came, per segment, and the order of things.
class Collector : public ReaderSink {
 public:
  void on_event(const ReaderEvent& event) override {
    std::visit([this](const auto& message) { on(message); }, event);
  }

  struct Row {
    SegmentId segment;
    Position position;
    std::string key, value;
    bool deleted = false;
    std::uint8_t flags = 0;
    Slot slot;
  };
  std::vector<Row> rows;                       // of runs, in order
  std::map<std::string, std::string> live;     // by runs and chunks: what a target would hold
  std::vector<std::string> order;              // "subscribed 3", "batch", "chunk 3", …
  std::map<SegmentId, Position> position;
  std::map<SegmentId, Position> heads;         // newest of Progress and Pong
  std::map<SegmentId, ProgressRow> progress;
  std::vector<Subscribed> subscribed;
  std::vector<StreamEnd> ends;
  std::vector<Pong> pongs;
  std::vector<Progress> progresses;
  std::optional<Welcome> welcome;
  std::optional<ErrorMessage> error;
  std::uint64_t chunks = 0, chunk_records = 0, empty_runs = 0;
  std::map<SegmentId, bool> walk_done;
  struct KeptChunk { SegmentId segment; std::optional<SlotKey> from, to; Position as_of; std::vector<std::string> keys; };
  std::vector<KeptChunk> kept_chunks;
  std::vector<std::pair<std::uint64_t, std::map<std::string, std::string>>> answers;  // Records: request → key → value
  std::vector<std::uint32_t> missing;
  std::vector<Digests> digests;                // without what they brought
  std::vector<std::size_t> digest_rows;        // …of which there were so many rows
  std::vector<WallMicros> commit_times;
  std::vector<bool> reaches_head;
  std::uint64_t granted = 0;                   // to be granted by the rig
  bool hold_grants = false;


 private:
  void on(const Welcome& m);
  void on(const Subscribed& m);
  void on(const Batch& m);
  void on(const Progress& m);
  void on(const Chunk& m);
  void on(const Records& m);
  void on(const Digests& m);
  void on(const StreamEnd& m);
  void on(const Pong& m);
  void on(const ErrorMessage& m);
  void on(const GoAway& m);
  std::uint32_t segments_ = 0;                 // for the range of a chunk
};

struct RigOptions {
  store::StoreOptions store = {.cluster = source_cluster, .segments = 4, .memory_max_bytes = 256u << 20, .seed = 1};
  SourceOptions source = {.cluster_name = "north/main"};
  Principal principal = {"follower", {Scope{}}};
  Hello hello = {.follower = "f", .link = "l", .target = ClusterId{0x7000}};
  ReaderOptions reader = {};
  bool drain = true;                         // as the shell does; false: the session looks at the heads itself
};

class Rig {
 public:
  using Options = RigOptions;
  explicit Rig(Options o = {}, store::Store* other = nullptr);
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  store::Store& store() { return *store_; }
  SourceSession& source() { return *source_; }
  ReaderSession& reader() { return *reader_; }
  Collector& user() { return user_; }

  Position put(std::string_view key, std::string_view value);
  Position del(std::string_view key);
  // A key of the segment: "<stem><n>" with the first n that falls into it.
  [[nodiscard]] std::string key_in(SegmentId segment, std::string_view stem = "k", int skip = 0) const;
  [[nodiscard]] NamedPosition named(SegmentId segment, Position at);
  [[nodiscard]] HistoryId history(SegmentId segment) { return store().lineage(segment).root().history; }

  void hello();                                // start, and pump until Welcome
  // New sessions on both ends, as after a lost connection. The user's state stays.
  void reconnect();
  void subscribe_from(SegmentId segment, std::optional<NamedPosition> low);
  void subscribe_walk(SegmentId segment, std::optional<NamedPosition> low = {}, std::optional<SlotKey> from = {});
  void subscribe_all_walks();

  // Lets both ends say everything they have to say. Returns the messages that went down.
  std::size_t pump(std::size_t most = 1'000'000);
  bool pump_one();                             // one message down; false: none
  void upstream();                             // the reader's messages only
  void advance(MonoMicros us);                 // time passes, ticks on both ends

  Now now{1'000'000, 1'790'000'000'000'000};
  std::function<void(std::string_view)> tap;   // sees every message that goes down
  std::vector<std::string> upward;             // what went up, if keep_upward
  bool keep_upward = false;
  bool confirm = true;

 private:
  void make_sessions();

  Options options_;
  std::unique_ptr<store::Store> own_store_;
  store::Store* store_;
  std::unique_ptr<store::Committer> committer_;
  std::unique_ptr<store::DirtyMap> dirty_;
  Collector user_;
  std::unique_ptr<SourceSession> source_;
  std::unique_ptr<ReaderSession> reader_;
};

}  // namespace zaris::feed
