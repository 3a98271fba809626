// The last step of every import: facts -> text that has been read back.
#ifndef MESHSEAL_COMPILER_IMPORT_FINISH_IMPORT_H_
#define MESHSEAL_COMPILER_IMPORT_FINISH_IMPORT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/import/import_model.h"
#include "compiler/import/model_facts.h"
#include "schema/checkpoint_listing.h"

namespace meshseal::compiler {

// `from` names the checkpoint in the head of the text; `listing` is null where no header was read. Reason kBug: the
// text reads back as another one.
absl::StatusOr<ImportResult> FinishImport(const ModelFacts& facts, absl::string_view from,
                                          const CheckpointListing* listing);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_IMPORT_FINISH_IMPORT_H_
