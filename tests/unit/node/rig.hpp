// A node without a process: coordinator in a folder of its own, store, and one executor; frames by hand.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "cluster/coordinator/local_coordinator.hpp"
#include "cluster/node/client_session.hpp"
#include "cluster/node/node_state.hpp"

namespace zaris::node {

inline constexpr WallMicros rig_time = 1'700'000'000'000'000;

struct Answer {
  Status status = Status::ok;
  std::uint8_t opcode = 0;
  std::uint32_t correlation = 0;
  std::string body;
};

// Takes the answers apart.
inline std::vector<Answer> answers(std::string_view bytes) {
  std::vector<Answer> out;
  const protocol::FrameParser parser(64u << 20);
  protocol::Frame frame;
  while (!bytes.empty()) {
    const auto step = parser.parse(bytes, frame);
    EXPECT_EQ(step.step, protocol::FrameStep::frame);
    if (step.step != protocol::FrameStep::frame) break;
    out.push_back({static_cast<Status>(frame.header.status), frame.header.opcode, frame.header.correlation, std::string(frame.body)});
    bytes.remove_prefix(step.consumed);
  }
  return out;
}

class Rig {
 public:
  explicit Rig(std::uint64_t value_max = 4u << 20) {
    std::string pattern = "/tmp/zaris-node-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    config.region = "test";
    config.store = "main";
    config.segments = 16;
    config.node.name = "n1";
    config.limits.key = 1024;
    config.limits.value = value_max;
    config.limits.connections = 100;
    config.memory.max_bytes = 256u << 20;
    config.log.pin_bytes = 64u << 20;
    config.log.pin_age_us = 3'600'000'000;
    open();
  }
  ~Rig() {
    close();
    std::filesystem::remove_all(folder_);
  }
  void open() {
    auto opened = coordinator::open_local_coordinator({folder_, {config.region, config.store, config.segments}, rig_time});
    EXPECT_TRUE(opened) << opened.error().text();
    coordinator = std::move(*opened);
    const Generation generation = *coordinator->mint_generation(Generation{0}, rig_time);
    store::StoreOptions options;
    options.cluster = coordinator->cluster_id();
    options.segments = config.segments;
    options.key_bytes_max = config.limits.key;
    options.value_bytes_max = config.limits.value;
    options.memory_max_bytes = config.memory.max_bytes;
    options.seed = 7;
    store = store::Store::create(options, {generation, coordinator->start().cause, rig_time});
    shared = std::make_unique<NodeShared>(config, *store, *coordinator);
    shared->generation = generation;
    shared->version = "test";
    shared->state = NodeState::serving;
    executor = std::make_unique<RequestExecutor>(*shared, counts);
  }
  void close() {
    executor.reset();
    shared.reset();
    store.reset();
    coordinator.reset();
  }

  // One frame body by hand to one answer, past the greeting.
  Answer ask(const std::string& frame_bytes) {
    std::string out;
    ClientSession session(*shared, counts, Protocol::native, {});
    std::string hello;
    encode(hello, 1, protocol::Hello{});
    executor->begin_round();
    (void)session.consume(hello + frame_bytes, *executor, out, 1u << 30);
    executor->end_round();
    const auto all = answers(out);
    EXPECT_EQ(all.size(), 2u);
    return all.size() == 2 ? all[1] : Answer{};
  }

  config::NodeConfig config;
  std::unique_ptr<coordinator::Coordinator> coordinator;
  std::unique_ptr<store::Store> store;
  std::unique_ptr<NodeShared> shared;
  WorkerCounts counts;
  std::unique_ptr<RequestExecutor> executor;

 private:
  std::string folder_;
};

}  // namespace zaris::node
