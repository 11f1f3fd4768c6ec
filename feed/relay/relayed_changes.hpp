// GET /v1/changes of a region of several nodes: the lines of ChangesStream, out of a reader's session through a Relay. What a region of one
// process can look up before it answers must be asked here: where the segments stand first, then, if a place to go on from was
// named, the same segments from there. No I/O; one thread at a time. Lines and tokens: docs/formats/feed.md.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "cluster/base/result.hpp"
#include "feed/relay/relay.hpp"
#include "feed/session/changes.hpp"

namespace zaris::feed {

class RelayedChanges {
 public:
  // `relay` has heard nothing yet, and outlives it. The scope has been granted.
  [[nodiscard]] static std::unique_ptr<RelayedChanges> create(Relay& relay, ChangesRequest request, Now now);
  virtual ~RelayedChanges() = default;

  virtual void on_tick(Now now) = 0;
  // Lets reader and relay say what they have to say; call after anything that the relay was told.
  virtual void pump(Now now) = 0;
  // Nothing is said before it is known that everything asked for can be read: then this is true, or refused() is set.
  [[nodiscard]] virtual bool begun() const = 0;
  [[nodiscard]] virtual std::optional<Error> refused() const = 0;   // codes as ChangesStream::open; source_unavailable
  // As in ChangesStream, once begun.
  virtual bool next(std::string& out, Now now) = 0;
  virtual void finish(std::string& out) = 0;
  [[nodiscard]] virtual std::optional<Error> ended() const = 0;
  [[nodiscard]] virtual const Scope& scope() const = 0;
  [[nodiscard]] virtual SourceCounters counters() const = 0;
};

}  // namespace zaris::feed
