// What this folder writes as JSON: objects keep the order in which their fields are written.
#ifndef MESHSEAL_SCHEMA_ORDERED_JSON_H_
#define MESHSEAL_SCHEMA_ORDERED_JSON_H_

#include <vector>

#include "nlohmann/json.hpp"

namespace meshseal {

using Json = nlohmann::ordered_json;

// A list of make(item) of each item.
template <class T, class F>
Json List(const std::vector<T>& items, F make) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(make(item));
  return list;
}

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_ORDERED_JSON_H_
