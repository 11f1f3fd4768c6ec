#include "cluster/cli/app.hpp"

int main(int argc, char** argv) { return zaris::cli::run(argc, argv, {ZARIS_VERSION, ZARIS_REVISION}); }
