// The pages made from the key tables are current, and the schema says what the loader does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "cluster/config/load.hpp"
#include "cluster/config/value.hpp"

namespace zaris::config {
namespace {

const std::string root = ZARIS_SOURCE_DIR;

void expect_current(const std::string& file, const std::string& wanted) {
  const std::string path = root + "/" + file;
  if (std::getenv("ZARIS_REGENERATE") != nullptr) std::ofstream(path) << wanted;
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_EQ(text.str(), wanted) << file << " is stale: run tests/unit/config/regenerate";
}

TEST(Pages, are_current) {
  expect_current("docs/reference/configuration.md", reference_page());
  expect_current("deploy/schema/zarisd.schema.json", json_schema(node_keys()));
  expect_current("deploy/schema/zaris-follower.schema.json", json_schema(follower_keys()));
  expect_current("deploy/schema/zaris-gateway.schema.json", json_schema(gateway_keys()));
}

TEST(Pages, every_default_is_a_legal_value) {
  for (const KeyTable* table : {&node_keys(), &follower_keys(), &gateway_keys()}) {
    for (const KeyRow& row : table->rows) {
      if (!row.required) (void)default_value(row);  // asserts
    }
    for (const ListGroup& group : table->groups) {
      for (const KeyRow& row : group.rows) {
        if (!row.required) (void)default_value(row);
      }
    }
  }
}

TEST(Pages, every_key_is_documented_and_secrets_are_files) {
  for (const KeyTable* table : {&node_keys(), &follower_keys(), &gateway_keys()}) {
    for (const KeyRow& row : table->rows) {
      EXPECT_FALSE(row.doc.empty()) << row.key;
      for (const char* secret : {"password", "secret", "token"}) {
        if (row.key.find(secret) != std::string::npos) {
          EXPECT_TRUE(row.key.ends_with("_file")) << row.key;
        }
      }
    }
  }
}

// As an editor sees a YAML file: plain scalars by their look.
nlohmann::json to_json(const YAML::Node& node) {
  if (node.IsMap()) {
    nlohmann::json out = nlohmann::json::object();
    for (const auto& member : node) out[member.first.as<std::string>()] = to_json(member.second);
    return out;
  }
  if (node.IsSequence()) {
    nlohmann::json out = nlohmann::json::array();
    for (const auto& element : node) out.push_back(to_json(element));
    return out;
  }
  if (node.IsNull()) return nullptr;
  const std::string text = node.Scalar();
  if (node.Tag() == "!") return text;
  if (text == "true" || text == "false") return text == "true";
  const auto number = nlohmann::json::parse(text, nullptr, false);
  return number.is_number() ? number : nlohmann::json(text);
}

bool valid(const KeyTable& table, const std::string& yaml) {
  const auto schema_text = nlohmann::json::parse(json_schema(table));
  valijson::Schema schema;
  valijson::SchemaParser parser;
  parser.populateSchema(valijson::adapters::NlohmannJsonAdapter(schema_text), schema);
  const nlohmann::json document = to_json(YAML::Load(yaml));
  valijson::Validator validator;
  return validator.validate(schema, valijson::adapters::NlohmannJsonAdapter(document), nullptr);
}

TEST(Schema, takes_what_the_loader_takes_and_refuses_what_it_refuses) {
  struct Case { const char* yaml; bool good; };
  const Case cases[] = {
      {"region: eu\nnode: {data_dir: /tmp/a}\nmemory: {max_bytes: 4GiB, eviction: 'off'}\n", true},
      {"feed: {access: [{subject: b, prefixes: ['t1:']}]}\n", true},
      {"listeners: {client: {address: '127.0.0.1:7861'}}\n", true},
      {"regoin: eu\n", false},
      {"memory: {max_bytes: 64}\n", false},
      {"memory: {max_byte: 64MiB}\n", false},
      {"memory: {eviction: lfu}\n", false},
      {"feed: {access: [{prefixes: ['t1:']}]}\n", false},
      {"drain: {timeout: 3 days}\n", false},
      {"limits: {connections: many}\n", false},
  };
  for (const Case& c : cases) EXPECT_EQ(valid(node_keys(), c.yaml), c.good) << c.yaml;
}

}  // namespace
}  // namespace zaris::config
