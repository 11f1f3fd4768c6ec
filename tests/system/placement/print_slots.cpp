// One key in hex per line in, its slot per line out; slots_like_redis.py compares them with a real server's.
#include <iostream>
#include <string>

#include "cluster/placement/slot.hpp"

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::string key;
    for (std::size_t i = 0; i + 1 < line.size(); i += 2) key += static_cast<char>(std::stoi(line.substr(i, 2), nullptr, 16));
    std::cout << zaris::slot_of(key).value() << '\n';
  }
}
