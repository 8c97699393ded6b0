#pragma once

#include <string>

namespace penstock {

/// One row of the table of faults in docs/FAULTS.md. A test that has passed
/// writes what it saw, not what it hoped for, as a file into
/// $PENSTOCK_FAULT_ROWS, where that is set; tests/faults/fault_table.py makes
/// the table of them and holds the document to it.
struct FaultRow {
  std::string fault;
  std::string made_by;
  std::string happened;
  std::string good_copy;  ///< whether the last good copy could be read; empty
                          ///< where none is concerned
  std::string skipped;    ///< why this machine cannot show it; then nothing else
                          ///< counts but `fault`
};

void write_row(const FaultRow& row);

}  // namespace penstock
