#include "compiler/yaml/yaml.h"

#include <utility>

namespace meshseal::compiler {

YamlNode::YamlNode(Span span, YamlScalar scalar) : span_(span), value_(std::move(scalar)) {}
YamlNode::YamlNode(Span span, Map entries) : span_(span), value_(std::move(entries)) {}
YamlNode::YamlNode(Span span, List items) : span_(span), value_(std::move(items)) {}

}  // namespace meshseal::compiler
