#include "cluster/cli/app.hpp"
#include "programs/build_info/build_info.hpp"

int main(int argc, char** argv) { return zaris::cli::run(argc, argv, {zaris::build_version, zaris::build_revision}); }
