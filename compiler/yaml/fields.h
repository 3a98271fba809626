// The keys of one YAML map, each asked for by name; what nobody asked for is an error.
//
//   FieldReader fields(node, "deployment.parallel", diagnostics);
//   const YamlNode* tp = fields.Required("tp");
//   const YamlNode* dense = fields.Optional("dense");
//   fields.Finish();
#ifndef MESHSEAL_COMPILER_YAML_FIELDS_H_
#define MESHSEAL_COMPILER_YAML_FIELDS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/text/diagnostic.h"
#include "compiler/yaml/yaml.h"

namespace meshseal::compiler {

// `node`, `diagnostics` and the keys' texts must outlive the reader. Not thread-safe.
class FieldReader {
 public:
  // `name` is what messages call the map. A node that is no map is reported as `wrong-kind`, once: then every
  // field is absent and no more is said.
  FieldReader(const YamlNode& node, absl::string_view name, Diagnostics& diagnostics);

  // The value of `key`; null, and `missing-field` at the map, where it is absent.
  const YamlNode* Required(absl::string_view key);
  // The value of `key`; null where it is absent.
  const YamlNode* Optional(absl::string_view key);
  // Reports every key that was not asked for as `unknown-key`. To be called once, after the last key.
  void Finish();

 private:
  const YamlNode& node_;
  std::string name_;
  Diagnostics& diagnostics_;
  std::vector<absl::string_view> known_;  // in the order asked for
};

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_YAML_FIELDS_H_
