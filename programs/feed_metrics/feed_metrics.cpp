#include "programs/feed_metrics/feed_metrics.hpp"

namespace zaris {
namespace {

using admin::MetricFamily;
using admin::MetricSink;
using admin::MetricType;

constexpr MetricFamily subscriptions{"zaris_feed_subscriptions", MetricType::gauge, "transport: websocket, ndjson", "Open subscriptions."};
constexpr MetricFamily subscriptions_total{"zaris_feed_subscriptions_total", MetricType::counter, "transport: websocket, ndjson", "Subscriptions opened."};
constexpr MetricFamily refused_total{"zaris_feed_subscriptions_refused_total", MetricType::counter, "reason: limit, draining, unauthorized, bad_request", "Subscriptions not opened."};
constexpr MetricFamily disconnects_total{"zaris_feed_disconnects_total", MetricType::counter, "transport: websocket, ndjson; reason: client, slow_consumer, idle, drain, dropped, protocol_error, error", "Subscriptions ended, by cause."};
constexpr MetricFamily events_total{"zaris_feed_events_sent_total", MetricType::counter, "transport: websocket, ndjson", "Records handed to the socket."};
constexpr MetricFamily bytes_total{"zaris_feed_sent_bytes_total", MetricType::counter, "transport: websocket, ndjson", "Bytes handed to the socket, framing included, before TLS."};
constexpr MetricFamily bookmarks_total{"zaris_feed_bookmarks_sent_total", MetricType::counter, "transport: websocket, ndjson", "Position-only messages, so that an idle or filtered subscriber can resume near the head."};
constexpr MetricFamily filtered_total{"zaris_feed_events_filtered_total", MetricType::counter, "", "Records examined and withheld by subscribers' scopes."};
constexpr MetricFamily buffered{"zaris_feed_buffered_bytes", MetricType::gauge, "", "Unsent bytes held for subscribers."};
constexpr MetricFamily buffer_limit{"zaris_feed_buffer_limit_bytes", MetricType::gauge, "", "Ceiling for that over all subscribers."};
constexpr MetricFamily connections{"zaris_feed_connections", MetricType::gauge, "", "Open connections on the feed's port, of any kind."};
constexpr MetricFamily handshakes_failed{"zaris_feed_handshakes_failed_total", MetricType::counter, "reason: timeout, no_client_cert, unknown_ca, not_tls, crowded_out, other", "Connections that did not finish their TLS handshake."};
constexpr MetricFamily accept_pauses{"zaris_feed_accept_pauses_total", MetricType::counter, "", "Times accepting paused since descriptors or memory had run out."};

constexpr MetricFamily stream_ends{"zaris_feed_stream_ends_total", MetricType::counter, "reason: those of docs/formats/feed.md", "Segments' streams that were ended towards a follower, by cause."};
constexpr MetricFamily go_aways{"zaris_feed_go_aways_total", MetricType::counter, "", "Sessions that were told that this process leaves, and that another gateway is to be looked for."};

constexpr MetricFamily attached{"zaris_gateway_attached_segments_total", MetricType::counter, "", "Segments that a session attached to a node, the first time or again."};
constexpr MetricFamily reattached{"zaris_gateway_reattached_segments_total", MetricType::counter, "", "Of them, those that the follower had been reading already: their owner changed, or its connection was lost. The follower does not notice."};
constexpr MetricFamily nodes_lost{"zaris_gateway_node_connections_lost_total", MetricType::counter, "", "Sessions' connections to nodes that ended by themselves."};
constexpr MetricFamily nodes_broken{"zaris_gateway_node_connections_broken_total", MetricType::counter, "", "Sessions' connections to nodes that were ended here, since what came did not go on from what the follower holds, or was no message; they are made anew."};
constexpr MetricFamily node_go_aways{"zaris_gateway_node_go_aways_total", MetricType::counter, "", "Times a node told a session that it leaves."};
constexpr MetricFamily table_version{"zaris_gateway_table_version", MetricType::gauge, "", "Version of the table of owners that is routed by."};
constexpr MetricFamily table_age{"zaris_gateway_table_age_seconds", MetricType::gauge, "", "Since a node last said who owns what."};
constexpr MetricFamily table_failures{"zaris_gateway_table_failures_total", MetricType::counter, "", "Questions for that table that no node answered."};
constexpr MetricFamily segments_unowned{"zaris_gateway_segments_unowned", MetricType::gauge, "", "Segments that nobody owns, or whose owner has no feed."};

constexpr MetricFamily tables[] = {table_version, table_age, table_failures, segments_unowned, attached, reattached, nodes_lost, nodes_broken, node_go_aways};
constexpr MetricFamily families[] = {subscriptions, subscriptions_total, refused_total, disconnects_total, events_total, bytes_total, bookmarks_total,
                                     filtered_total, buffered, buffer_limit, connections, handshakes_failed, accept_pauses, stream_ends, go_aways};

}  // namespace

std::span<const MetricFamily> feed_families() { return families; }

std::span<const MetricFamily> table_families() { return tables; }

void put_table(MetricSink& sink, const TableMetrics& table, const feed::RoutedCounters& counters) {
  sink.put(table_version, static_cast<double>(table.version));
  sink.put(table_age, table.age_seconds);
  sink.put(table_failures, static_cast<double>(table.failures));
  sink.put(segments_unowned, table.unowned);
  const auto put = [&sink](const MetricFamily& family, const std::atomic<std::uint64_t>& count) { sink.put(family, static_cast<double>(count.load(std::memory_order_relaxed))); };
  put(attached, counters.attached);
  put(reattached, counters.reattached);
  put(nodes_lost, counters.nodes_lost);
  put(nodes_broken, counters.broken);
  put(node_go_aways, counters.go_aways);
}

void put_feed(MetricSink& sink, const feed::GatewaySnapshot& s) {
  const auto d = [](std::uint64_t n) { return static_cast<double>(n); };
  for (std::size_t t = 0; t < feed::transport_names.size(); ++t) {
    const auto& one = s.transports[t];
    const admin::Labels labels{{"transport", std::string(feed::transport_names[t])}};
    sink.put(subscriptions, d(one.open), labels);
    sink.put(subscriptions_total, d(one.opened_total), labels);
    sink.put(events_total, d(one.records_sent_total), labels);
    sink.put(bytes_total, d(one.bytes_sent_total), labels);
    sink.put(bookmarks_total, d(one.progresses_sent_total), labels);
    for (std::size_t r = 0; r < feed::disconnect_reason_names.size(); ++r) {
      sink.put(disconnects_total, d(one.disconnects_total[r]), {labels[0], {"reason", std::string(feed::disconnect_reason_names[r])}});
    }
  }
  for (std::size_t r = 0; r < feed::refused_reason_names.size(); ++r) sink.put(refused_total, d(s.refused_total[r]), {{"reason", std::string(feed::refused_reason_names[r])}});
  for (std::size_t r = 0; r < feed::handshake_failure_names.size(); ++r) {
    sink.put(handshakes_failed, d(s.handshakes_failed_total[r]), {{"reason", std::string(feed::handshake_failure_names[r])}});
  }
  sink.put(filtered_total, d(s.records_filtered_total));
  sink.put(buffered, d(s.buffered_bytes));
  sink.put(buffer_limit, d(s.buffered_bytes_max));
  sink.put(connections, d(s.connections_open));
  sink.put(accept_pauses, d(s.accept_pauses_total));
  sink.put(go_aways, d(s.go_aways_total));
  for (std::size_t r = 1; r < s.stream_ends_total.size(); ++r) sink.put(stream_ends, d(s.stream_ends_total[r]), {{"reason", std::string(name(static_cast<feed::EndReason>(r)))}});
}

}  // namespace zaris
