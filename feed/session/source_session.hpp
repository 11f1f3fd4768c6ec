// The inside of SourceSession; see source.hpp. Included by the source_*.cpp files only.
//
// What a segment's receiver holds is `told`; how far its log has been looked at is `scanned`. Between the two nothing
// went to the receiver, and nothing was for it. A run, or a Progress row that names where it moved from, carries told
// on; nothing else does.
#pragma once
#include <list>
#include <variant>

#include "feed/message/batch_writer.hpp"
#include "feed/session/log_filter.hpp"
#include "feed/session/segment_set.hpp"
#include "feed/session/source.hpp"

namespace zaris::feed {

class Source final : public SourceSession {
 public:
  Source(store::Store& store, SourceOptions options, Principal principal, std::function<bool()> confirm, SegmentAuthority authority);
  ~Source() override;

  void on_message(std::string_view bytes, Now now) override;
  void on_dirty(std::span<const SegmentId> segments) override;
  void on_authority() override;
  void on_tick(Now now) override;
  bool next_message(std::string& out, Now now) override;
  void end(EndReason reason, std::string_view text) override;

  std::optional<SessionEnd> ended() const override { return ended_; }
  const std::optional<Hello>& hello() const override { return hello_; }
  SourceCounters counters() const override { return counters_; }
  std::uint64_t credit_left() const override { return credit_ > 0 ? static_cast<std::uint64_t>(credit_) : 0; }

 private:
  struct Segment {
    Position told, scanned;
    std::uint32_t progress_head = 0, pong_head = 0;  // the last Progress' and Pong's, in so far as a change shows
    std::uint32_t subscription = 0;      // how many Subscribes of it came
    Generation lineage_told;             // the newest generation that Subscribed has told of
    Slot reached;                        // of a walk that began with nothing: the slot of the last chunk sent
    bool subscribed = false;
    bool positioned = false;             // false while a walk that began with nothing has sent no chunk
    bool reached_only = false;           // records of slots behind `reached` come with later chunks
  };
  // What is said before any data. Small: lineages are read when it is their turn.
  struct Control {
    enum class Kind : std::uint8_t { welcome, subscribed, stream_end, error, go_away } kind;
    SegmentId segment;
    std::uint32_t subscription = 0;
    EndReason reason = EndReason::protocol_error;
    bool with_lineage = false;
    std::string code, text;
    std::optional<Position> surviving;
    Revision floor;
  };
  struct WalkRequest {
    SegmentId segment;
    std::optional<SlotKey> from;
    std::optional<Position> since;
    bool names = false;
  };
  struct ActiveWalk {
    SegmentId segment;
    std::unique_ptr<store::Walk> walk;
    std::optional<Position> since;
    bool names = false;
  };
  // A page of a walk; of one since a position what is newer, and what the rest of it is.
  struct ChunkPage {
    store::WalkPage page;
    std::optional<Chunk::Others> others;  // its names lie in `names`
    std::string names;
  };
  static ChunkPage newer_than(Position since, bool names, store::WalkPage page);
  struct Fetch {
    FetchKeys asked;
    std::uint32_t done = 0;   // keys answered so far: a large answer comes in several messages
  };
  // An answer as of a position: it leaves when its segment's tail has reached exactly that, and the tail waits for it.
  struct Pending {
    SegmentId segment;
    NamedPosition as_of;
    std::uint64_t credit = 0;
    std::variant<ChunkPage, std::string> answer;  // a Chunk's content, or an encoded message
  };
  // A record over part_bytes, on its way in parts; paid for as a whole when it began.
  struct Large {
    SegmentId segment;
    Position prev, at;
    WallMicros commit_time_us = 0;
    store::LogStretch stretch;
    std::size_t index = 0;
    std::size_t offset = 0;
  };
  enum class Turn : std::uint8_t { next_segment, message_done };
  enum class Stop : std::uint8_t { none, room, credit, large, far, withheld };  // why a run ends before its stretch does

  // ---- source.cpp: messages in, control out
  void handle(Hello& m);
  void handle(Subscribe& m);
  void handle(Unsubscribe& m);
  void handle(Credit& m);
  void handle(Ack& m);
  void handle(FetchKeys& m);
  void handle(DigestRequest& m);
  void handle(Ping& m);
  void subscribe(const SubscribeSegment& asked);
  [[nodiscard]] bool serves(SegmentId id) const { return !authority_.serves || authority_.serves(id); }
  void moving(SegmentId id);
  [[nodiscard]] static SegmentId segment_of_request(const std::variant<Fetch, DigestRequest>& request);
  [[nodiscard]] std::optional<Revision> ship_limit(SegmentId id) const;
  [[nodiscard]] Position shown_head(SegmentId id);
  std::optional<Position> moved_while_away(SegmentId id, Position low);
  void refuse(std::string code, std::string text, bool protocol_error);
  void end_segment(SegmentId id, EndReason reason, std::string text, std::optional<Position> surviving = {}, Revision floor = {});
  void leave(SegmentId id);
  void queue(Control control) { control_.push_back(std::move(control)); }
  bool next_control(std::string& out);
  void encode_welcome(std::string& out);
  bool encode_subscribed(std::string& out, const Control& control);
  void attach();
  void set_pin(SegmentId id, Position at);
  void detach();

  // ---- source_tail.cpp: batches and parts
  bool next_data(std::string& out);
  bool parts_only(std::string& out);
  bool build_batch(std::string& out);
  Turn tail_segment(BatchWriter& writer, std::string& out, std::size_t start, SegmentId id);
  Stop append_stretch(BatchWriter& writer, std::string& out, std::size_t room, SegmentId id, const store::LogStretch& stretch,
                      std::size_t count);
  Turn begin_large(BatchWriter& writer, SegmentId id, const store::LogStretch& stretch);
  void cover(BatchWriter& writer, SegmentId id);
  void next_part(std::string& out);
  void trimmed(SegmentId id);
  void standby(SegmentId id);
  [[nodiscard]] bool credit_for(std::uint64_t bytes) const;
  void charge(std::uint64_t bytes) { credit_ -= static_cast<std::int64_t>(bytes); }

  // ---- source_walk.cpp: chunks and answers as of a position
  bool begin_pending();
  bool take_page();
  bool take_request();
  bool answer(Fetch& request);
  bool answer(DigestRequest& request);
  void answer_page(const DigestRequest& request);
  [[nodiscard]] bool near_head(SegmentId id) const;
  [[nodiscard]] bool pending_reached() const;
  void send_pending(std::string& out);
  [[nodiscard]] NamedPosition named(SegmentId id, Position at);

  // ---- source_progress.cpp
  void check_progress_due(Now now);
  void read_closed_time(Now now);
  bool next_pong(std::string& out);
  bool next_progress(std::string& out);

  Segment& at(SegmentId id) { return segments_[id.value()]; }
  [[nodiscard]] const Segment& at(SegmentId id) const { return segments_[id.value()]; }

  store::Store& store_;
  const SourceOptions options_;
  const Principal principal_;
  const std::function<bool()> confirm_;
  const SegmentAuthority authority_;
  const std::uint32_t segment_count_;

  std::optional<Hello> hello_;
  std::optional<SessionEnd> ended_;
  std::optional<LogFilter> filter_;
  store::PinKey pin_;
  bool pins_ = true;                 // this reader holds one
  bool pin_attached_ = false;
  bool pin_lost_ = false;            // it was cut under this session: segments that are trimmed now were too slow
  Now now_;
  std::optional<MonoMicros> last_heard_;
  SourceCounters counters_;

  std::vector<Segment> segments_;
  SegmentSet subscribed_;
  SegmentSet tail_;             // may have log above `scanned` and may go on
  SegmentSet progress_changed_, pong_changed_;
  SegmentSet held_back_;        // have log that may not leave yet
  std::uint32_t tail_from_ = 0;      // round-robin: where the next batch begins
  std::list<Control> control_;   // lists: nothing is held while they are empty, and a session is mostly idle

  std::int64_t credit_ = 0;          // may fall below zero by one record that passed when all of it was free
  std::int64_t window_ = 0;          // the most that credit ever was
  std::uint64_t scan_left_ = 0;      // of the present call: log bytes that may still be looked at
  bool batch_full_ = false;          // the last batch was: the tail is behind
  std::uint32_t full_batches_ = 0;   // in a row, without a chunk between
  bool tail_had_turn_ = false;       // since the last chunk or answer
  std::optional<Large> large_;
  bool part_turn_ = false;

  std::list<WalkRequest> walks_waiting_;
  std::vector<ActiveWalk> walks_;
  std::size_t walk_from_ = 0;
  std::list<std::variant<Fetch, DigestRequest>> requests_;
  std::size_t request_bytes_ = 0;
  std::optional<Pending> pending_;
  // Where the newest page of digests ended: a walk that goes on keeps the order of a large slot.
  struct DigestWalk {
    SegmentId segment;
    SlotKey at;
    std::unique_ptr<store::Walk> walk;
  };
  std::optional<DigestWalk> digest_walk_;

  std::optional<MonoMicros> last_progress_;
  bool progress_due_ = false;
  bool progress_heads_known_ = false;   // the dirty map was drained after closed_time_us_ had been read
  WallMicros closed_time_us_ = 0;
  // A closed time may be said when every head from after its reading may leave: the heads that could not, then.
  struct Closing { WallMicros time_us = 0; std::vector<std::pair<SegmentId, Revision>> heads; };
  std::optional<Closing> closing_;
  std::uint64_t covered_bytes_ = 0;     // log passed over since the last Progress
  std::optional<MonoMicros> ping_;
  bool pong_heads_known_ = false;       // the dirty map was drained after the Ping had come in
};

}  // namespace zaris::feed
