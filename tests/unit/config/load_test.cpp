#include "cluster/config/load.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace zaris::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Folder {
 public:
  Folder() {
    std::string pattern = "/tmp/zaris-config-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(path_ + "/" + name) << text;
    return path_ + "/" + name;
  }
  std::string name(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

Sources flags(std::vector<Sources::Flag> flags) { return {{}, std::move(flags), {}}; }
const Sources::Flag data_dir{"node.data_dir", "/tmp/a", "--set"};

template <class T>
std::vector<std::string> texts(const Loaded<T>& loaded) {
  std::vector<std::string> out;
  for (const Mistake& mistake : loaded.mistakes) out.push_back(mistake.text());
  return out;
}

TEST(Load, defaults_are_those_of_the_design) {
  const auto loaded = load_node_config(flags({data_dir}));
  ASSERT_TRUE(loaded.ok()) << show(loaded.mistakes);
  const NodeConfig& c = loaded.config;
  EXPECT_EQ(c.segments, 256u);
  EXPECT_EQ(c.memory.max_bytes, 1ull << 30);
  EXPECT_TRUE(c.memory.evict);
  EXPECT_EQ(c.limits.key, 64u << 10);
  EXPECT_EQ(c.limits.value, 4u << 20);
  EXPECT_EQ(c.log.budget_bytes, 256ull << 20);
  EXPECT_EQ(c.log.pin_bytes, 1ull << 30);
  EXPECT_EQ(c.log.pin_age_us, 86'400'000'000u);
  EXPECT_EQ(c.feed.fresh_interval_us, 200'000u);
  EXPECT_EQ(c.drain.timeout_us, 30'000'000u);
  EXPECT_EQ(c.listeners.client.address, "127.0.0.1:7861");
  EXPECT_EQ(c.listeners.admin.address, "127.0.0.1:7881");
  EXPECT_EQ(c.listeners.feed.address, "");  // without a certificate there is no feed
  EXPECT_EQ(c.node.on_empty_start, OnEmptyStart::serve);
}

TEST(Load, a_key_of_one_text_takes_whatever_flag_or_variable_says) {
  const auto by_flag = load_node_config(flags({data_dir, {"listeners.client.address", "[::1]:7861", "--set"}, {"etcd.prefix", "{/zaris", "--set"}, {"roster[0].name", "[a", "--set"},
                                               {"roster.0.host", "[::1]", "--set"}}));
  EXPECT_THAT(texts(by_flag), testing::Each(testing::Not(HasSubstr("YAML"))));
  EXPECT_EQ(by_flag.config.listeners.client.address, "[::1]:7861");
  EXPECT_EQ(by_flag.config.etcd.prefix, "{/zaris");
  ASSERT_EQ(by_flag.config.roster.size(), 1u);
  EXPECT_EQ(by_flag.config.roster[0].name, "[a");
  EXPECT_EQ(by_flag.config.roster[0].host, "[::1]");
  const auto by_variable = load_node_config({{}, {data_dir}, {{"ZARIS_LISTENERS_CLIENT_ADDRESS", "[::1]:7861"}}});
  ASSERT_TRUE(by_variable.ok()) << show(by_variable.mistakes);
  EXPECT_EQ(by_variable.config.listeners.client.address, "[::1]:7861");
}

TEST(Load, flags_win_over_environment_over_later_files_over_earlier_ones_over_defaults) {
  const Folder folder;
  const std::string one = folder.file("one.yaml", "region: file1\nstore: file1\nnode: {name: file1, data_dir: /tmp/a}\nlimits: {connections: 1}\n");
  const std::string two = folder.file("two.yaml", "store: file2\nnode:\n  name: file2\nlimits: {connections: 2}\n");
  Sources sources{{one, two}, {{"limits.connections", "4", "--set"}}, {{"ZARIS_LIMITS_CONNECTIONS", "3"}, {"ZARIS_NODE_NAME", "environment"}, {"HOME", "/"}}};
  const auto loaded = load_node_config(sources);
  ASSERT_TRUE(loaded.ok()) << show(loaded.mistakes);
  EXPECT_EQ(loaded.config.region, "file1");
  EXPECT_EQ(loaded.config.store, "file2");
  EXPECT_EQ(loaded.config.node.name, "environment");
  EXPECT_EQ(loaded.config.limits.connections, 4u);
}

TEST(Load, says_everything_that_is_wrong_at_once_each_with_its_place) {
  const Folder folder;
  const std::string file = folder.file("node.yaml",
                                       "regoin: eu\n"                        // 1
                                       "memory:\n"                           // 2
                                       "  max_bytes: 64\n"                   // 3: no unit
                                       "  eviction: lfu\n"                   // 4
                                       "node:\n"                             // 5
                                       "  data_dir: /tmp/a\n"                // 6
                                       "  data_dir: /tmp/b\n"                // 7: twice
                                       "log: 5\n"                            // 8: a group
                                       "drain:\n"                            // 9
                                       "  timeout: 3 days\n"                 // 10
                                       "limits:\n"                           // 11
                                       "  value: 1GiB\n"                     // 12: out of range
                                       "tls:\n"                              // 13
                                       "  cert: /nowhere/server.crt\n");     // 14
  const auto loaded = load_node_config({{file}, {}, {}});
  EXPECT_THAT(texts(loaded), ::testing::UnorderedElementsAre(
                                 HasSubstr(file + ":7:3: data_dir: written twice; first at line 6"),
                                 HasSubstr(file + ":1:1: regoin: unknown key; did you mean region?"),
                                 HasSubstr(file + ":8:6: log: is a group of keys"),
                                 HasSubstr(file + ":3:14: memory.max_bytes: must be a size with its unit (64KiB, 1GiB), not \"64\""),
                                 HasSubstr(file + ":4:13: memory.eviction: \"lfu\" is not one of lru, off"),
                                 HasSubstr(file + ":10:12: drain.timeout: must be a duration with its unit"),
                                 HasSubstr(file + ":12:10: limits.value: 1GiB is out of range: 1B to 15MiB"),
                                 HasSubstr(file + ":14:9: tls.cert: /nowhere/server.crt cannot be read")));
}

TEST(Load, a_key_in_the_wrong_place_is_named_where_it_belongs) {
  const auto loaded = load_node_config(flags({data_dir, {"max_bytes", "1GiB", "--set"}}));
  EXPECT_THAT(texts(loaded), ElementsAre(HasSubstr("--set: max_bytes: unknown key; did you mean memory.max_bytes?")));
}

TEST(Load, the_largest_key_and_the_largest_value_must_fit_into_one_record) {
  const auto set = [](const char* key, const char* value) {
    return load_node_config(flags({data_dir, {"limits.key", key, "--set"}, {"limits.value", value, "--set"}, {"memory.max_bytes", "1GiB", "--set"}}));
  };
  EXPECT_TRUE(set("64KiB", "15MiB").ok());
  EXPECT_TRUE(set("1MiB", "14MiB").ok());
  EXPECT_THAT(texts(set("1MiB", "15MiB")), ElementsAre(HasSubstr("--set: limits.value: limits.key and limits.value together")));
}

TEST(Load, broken_files_are_mistakes_and_not_the_end) {
  const Folder folder;
  struct Case { const char* text; const char* wanted; };
  const Case cases[] = {
      {"a: [1\n", "not readable as YAML"},
      {"- a\n- b\n", "is a map of keys"},
      {"region: &x eu\nstore: *x\n", "anchors are not supported"},
      {"region: a\n---\nregion: b\n", "more than one YAML document"},
      {"? {a: b}\n: c\n", "a key must be a plain word"},
  };
  for (const Case& c : cases) {
    const auto loaded = load_node_config({{folder.file("x.yaml", c.text)}, {data_dir}, {}});
    EXPECT_THAT(show(loaded.mistakes), HasSubstr(c.wanted)) << c.text;
  }
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "[";
  EXPECT_FALSE(load_node_config({{folder.file("deep.yaml", deep)}, {data_dir}, {}}).ok());
  EXPECT_THAT(show(load_node_config({{folder.name("missing.yaml")}, {data_dir}, {}}).mistakes), HasSubstr("cannot be read"));
  EXPECT_TRUE(load_node_config({{folder.file("empty.yaml", "")}, {data_dir}, {}}).ok());
  EXPECT_THAT(show(load_node_config({{folder.file("big.yaml", std::string(2u << 20, '#'))}, {data_dir}, {}}).mistakes), HasSubstr("larger than"));
}

TEST(Load, what_is_required_is_said_to_be_missing) {
  EXPECT_THAT(texts(load_node_config({})), ElementsAre(HasSubstr("node.data_dir: is missing")));
  EXPECT_THAT(texts(load_node_config(flags({{"node.data_dir", "", "--set"}}))), ElementsAre(HasSubstr("node.data_dir: is missing")));
}

TEST(Load, unknown_environment_variables_warn_since_kubernetes_makes_some) {
  const auto loaded = load_node_config({{}, {data_dir}, {{"ZARIS_PORT_7861_TCP", "tcp://10.0.0.1:7861"}}});
  EXPECT_TRUE(loaded.ok());
  EXPECT_THAT(loaded.warnings, ElementsAre(HasSubstr("ZARIS_PORT_7861_TCP")));
}

TEST(CrossChecks, each_rule_of_the_node) {
  struct Case { std::vector<Sources::Flag> set; const char* wanted; };
  const auto set = [](const char* key, const char* value) { return Sources::Flag{key, value, "--set"}; };
  const Case cases[] = {
      {{set("log.pin_bytes", "64MiB")}, "log.pin_bytes: 64MiB is less than log.budget_bytes (256MiB)"},
      {{set("segments", "100")}, "segments: 100 is not a power of two"},
      {{set("standalone", "false")}, "etcd.endpoints: a region of several processes needs etcd"},
      {{set("standalone", "false"), set("node.on_empty_start", "serve")}, "node.on_empty_start: serve is for standalone: true"},
      {{set("listeners.client.address", "0.0.0.0:7861")}, "is not loopback and this listener has no TLS"},
      {{set("listeners.admin.address", "10.1.2.3:7881")}, "is not loopback and this listener has no TLS"},
      {{set("listeners.admin.address", "127.0.0.1:7861")}, "is already the address of listeners.client.address"},
      {{set("listeners.client.address", "off")}, "nobody could connect"},
      {{set("listeners.feed.address", "127.0.0.1:7871")}, "the feed needs a certificate"},
      {{set("listeners.client_tls.address", "127.0.0.1:7863")}, "needs a certificate"},
      {{set("feed.client_auth", "off"), set("listeners.feed.address", "127.0.0.1:1")}, "off is only possible together with"},
      {{set("memory.max_bytes", "2MiB")}, "does not hold one record of the largest size"},
      {{set("listeners.client.address", "localhost")}, "must be host:port"},
  };
  for (const Case& c : cases) {
    auto all = c.set;
    all.push_back(data_dir);
    EXPECT_THAT(show(load_node_config(flags(all)).mistakes), HasSubstr(c.wanted));
  }
  const auto insecure = load_node_config(flags({data_dir, set("listeners.client.address", "0.0.0.0:7861"), set("listeners.client.insecure", "true")}));
  EXPECT_TRUE(insecure.ok()) << show(insecure.mistakes);
}

TEST(CrossChecks, a_key_that_is_not_the_certificates_is_found_before_anything_starts) {
  const Folder folder;
  const auto openssl = [&](const std::string& name) {
    const std::string command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=" + name + " -keyout " +
                                folder.name(name + ".key") + " -out " + folder.name(name + ".crt") + " 2>/dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0);
  };
  openssl("a");
  openssl("b");
  const auto with = [&](const std::string& cert, const std::string& key) {
    return load_node_config(flags({data_dir, {"tls.cert", folder.name(cert), "--set"}, {"tls.key", folder.name(key), "--set"}, {"tls.ca", folder.name("a.crt"), "--set"}}));
  };
  EXPECT_THAT(show(with("a.crt", "b.key").mistakes), HasSubstr("is not the key of the certificate"));
  EXPECT_THAT(show(with("a.key", "a.key").mistakes), HasSubstr("holds no certificate"));
  const auto good = with("a.crt", "a.key");
  EXPECT_TRUE(good.ok()) << show(good.mistakes);
  EXPECT_EQ(good.config.listeners.feed.address, "127.0.0.1:7871");  // with a certificate there is a feed
  EXPECT_EQ(good.config.listeners.feed.tls.cert, folder.name("a.crt"));
}

TEST(Follower, links_come_from_files_flags_and_environment) {
  const Folder folder;
  const std::string file = folder.file("follower.yaml",
                                       "cursor: {path: /tmp/c}\n"
                                       "target: {url: 'zaris://127.0.0.1:7861'}\n"
                                       "links:\n"
                                       "  - name: one\n"
                                       "    source: {url: 'zaris://a:7871', cluster_id: 00000000000000ff}\n"
                                       "    scope: {prefixes: ['t1:', 't2:'], slots: [0-99, 200]}\n"
                                       "    max_removal: 25%\n");
  const auto loaded = load_follower_config({{file}, {{"links[1].name", "two", "--set"}, {"links.1.source.url", "zaris://b:7871", "--set"}, {"links[1].scope.prefixes", "[x, y]", "--set"}},
                                            {{"ZARIS_LINKS_0_CONNECTIONS", "3"}}});
  ASSERT_TRUE(loaded.ok()) << show(loaded.mistakes);
  ASSERT_EQ(loaded.config.links.size(), 2u);
  const LinkConfig& one = loaded.config.links[0];
  EXPECT_EQ(one.source.cluster_id, ClusterId{255});
  EXPECT_THAT(one.scope.prefixes, ElementsAre("t1:", "t2:"));
  EXPECT_THAT(one.scope.slots, ElementsAre(std::pair(Slot{0}, Slot{99}), std::pair(Slot{200}, Slot{200})));
  EXPECT_EQ(one.max_removal, 0.25);
  EXPECT_EQ(one.connections, 3u);
  EXPECT_EQ(loaded.config.links[1].name, "two");
  EXPECT_THAT(loaded.config.links[1].scope.prefixes, ElementsAre("x", "y"));
}

TEST(Follower, each_cross_check) {
  const std::vector<Sources::Flag> base{{"cursor.path", "/tmp/c", "--set"}, {"target.url", "zaris://h:1", "--set"}, {"links[0].name", "one", "--set"}, {"links[0].source.url", "zaris://a:1", "--set"}};
  struct Case { std::vector<Sources::Flag> set; const char* wanted; };
  const Case cases[] = {
      {{{"apply.queue_bytes", "1MiB", "--set"}}, "apply.queue_bytes: 1MiB is less than links[0].credit (32MiB)"},
      {{{"links[0].source.url", "zariss://a:1", "--set"}}, "needs the authorities"},
      {{{"target.url", "http://h", "--set"}}, "must begin with zaris://"},
      {{{"links[0].name", "a b", "--set"}}, "letters, digits"},
      {{{"links[1].name", "one", "--set"}, {"links[1].source.url", "zaris://b:1", "--set"}}, "is the name of another link"},
      {{{"links[0].nmae", "x", "--set"}}, "links[0].nmae: unknown key; did you mean links[0].name?"},
      {{{"links[0].scope.slots", "[5-2]", "--set"}}, "list of slot ranges"},
      {{{"links[5].name", "x", "--set"}}, "the list has 1 elements"},
  };
  for (const Case& c : cases) {
    auto all = base;
    all.insert(all.end(), c.set.begin(), c.set.end());
    EXPECT_THAT(show(load_follower_config(flags(all)).mistakes), HasSubstr(c.wanted));
  }
  EXPECT_THAT(show(load_follower_config(flags({base[0], base[1]})).mistakes), HasSubstr("at least one link"));
}

TEST(Reload, tells_what_needs_a_restart) {
  const auto now = load_node_config(flags({data_dir}));
  const auto next = load_node_config(flags({data_dir, {"logging.level", "debug", "--set"}, {"segments", "512", "--set"}, {"feed.access[0].subject", "b", "--set"}, {"feed.access[0].prefixes", "[t1:]", "--set"}}));
  ASSERT_TRUE(next.ok()) << show(next.mistakes);
  const Difference changed = difference(now.settings, next.settings);
  EXPECT_THAT(changed.restart, ElementsAre("segments"));
  EXPECT_THAT(changed.reloadable, ::testing::UnorderedElementsAre("logging.level", "feed.access[0].subject", "feed.access[0].prefixes"));
  EXPECT_NE(settings_hash(now.settings), settings_hash(next.settings));
}

TEST(Print, what_is_printed_is_read_back_as_the_same) {
  const Folder folder;
  const auto first = load_follower_config(flags({{"cursor.path", "/tmp/a b", "--set"}, {"target.url", "zaris://h:1", "--set"}, {"links[0].name", "one", "--set"}, {"links[0].source.url", "zaris://a:1", "--set"},
                                                 {"links[0].scope.prefixes", "[\"t:\\n\\\"\", '']", "--set"}, {"links[0].scope.slots", "[1-2]", "--set"}}));
  ASSERT_TRUE(first.ok()) << show(first.mistakes);
  const std::string printed = print_settings(first.settings);
  EXPECT_THAT(printed, HasSubstr("# --set"));
  EXPECT_THAT(printed, HasSubstr("# default"));
  const auto second = load_follower_config({{folder.file("printed.yaml", printed)}, {}, {}});
  ASSERT_TRUE(second.ok()) << show(second.mistakes) << printed;
  EXPECT_EQ(settings_hash(first.settings), settings_hash(second.settings)) << printed;
}

}  // namespace
}  // namespace zaris::config
