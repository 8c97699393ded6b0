/* Puts tensors, changes one, reads all back: consumer_c DIRECTORY. */

#include <penstock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 8, BYTES = 500001 };

static void expect(int good, const char* what) {
  if (!good) {
    fprintf(stderr, "consumer_c: %s: %s\n", what, penstock_last_error());
    exit(1);
  }
}

static void fill_store(penstock_engine* engine, char names[TENSORS][16]) {
  const uint64_t shape[] = {BYTES};
  penstock_tensor_info info = {.struct_size = sizeof info, .shape = shape, .dimensions = 1};
  unsigned char* data = malloc(BYTES);
  expect(data != NULL, "malloc");
  for (int i = 0; i < TENSORS; ++i) {
    snprintf(names[i], sizeof names[i], "layer.%d", i);
    expect(penstock_declare(engine, names[i], &info) == PENSTOCK_OK, "declare");
    memset(data, i, BYTES);
    expect(penstock_put(engine, names[i], data, BYTES) == PENSTOCK_OK, "put");
  }
  free(data);
}

static void change_one(penstock_engine* engine, const char* name) {
  penstock_lease* lease = NULL;
  penstock_ticket* ticket = NULL;
  void* data = NULL;
  size_t bytes = 0;
  expect(penstock_get(engine, name, PENSTOCK_UPDATE, &lease) == PENSTOCK_OK, "get");
  expect(penstock_lease_memory(lease, &data, &bytes) == PENSTOCK_OK && bytes == BYTES, "memory");
  memset(data, 99, bytes);
  expect(penstock_commit_async(engine, lease, &ticket) == PENSTOCK_OK, "commit");
  expect(penstock_release(lease) == PENSTOCK_OK, "release");
  expect(penstock_ticket_wait(ticket, -1) == PENSTOCK_OK, "wait");
  expect(penstock_ticket_drop(ticket) == PENSTOCK_OK, "drop");
}

static void read_back(penstock_engine* engine, char names[TENSORS][16]) {
  const char* order[TENSORS];
  for (int i = 0; i < TENSORS; ++i) {
    order[i] = names[i];
  }
  expect(penstock_prefetch(engine, order, TENSORS) == PENSTOCK_OK, "prefetch");
  for (int i = 0; i < TENSORS; ++i) {
    const unsigned char wanted = i == 3 ? 99 : (unsigned char)i;
    penstock_lease* lease = NULL;
    void* data = NULL;
    expect(penstock_get(engine, names[i], PENSTOCK_READ, &lease) == PENSTOCK_OK, "get");
    expect(penstock_lease_memory(lease, &data, NULL) == PENSTOCK_OK, "memory");
    for (size_t byte = 0; byte < BYTES; ++byte) {
      expect(((const unsigned char*)data)[byte] == wanted, "a byte came back wrong");
    }
    expect(penstock_release(lease) == PENSTOCK_OK, "release");
    expect(penstock_release(lease) == PENSTOCK_ERROR_CLOSED, "released twice");
  }
}

int main(int argc, char** argv) {
  expect(argc == 2, "consumer_c DIRECTORY");
  const char* const paths[] = {argv[1]};
  penstock_engine_options options = {
      .struct_size = sizeof options, .paths = paths, .path_count = 1};
  penstock_engine* engine = NULL;
  char names[TENSORS][16];
  expect(penstock_open(&options, &engine) == PENSTOCK_OK, "open");
  fill_store(engine, names);
  change_one(engine, names[3]);
  read_back(engine, names);
  penstock_engine_stats stats = {.struct_size = sizeof stats};
  expect(penstock_stats(engine, &stats) == PENSTOCK_OK, "stats");
  expect(penstock_close(engine) == PENSTOCK_OK, "close");
  expect(penstock_close(engine) == PENSTOCK_ERROR_CLOSED, "closed twice");
  printf("penstock %s: %d tensors, %llu gets\n", penstock_version(), TENSORS,
         (unsigned long long)stats.gets);
  return 0;
}
