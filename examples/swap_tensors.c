/* Tensors of 128 MiB with 16 MiB of pinned memory: put, read ahead, update, and one error.

     swap_tensors_c DIRECTORY     a directory on the drive to swap to; nothing is left there */

#include <penstock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 32, BYTES = 4 << 20 };

/* Settings are those of the `penstock` block of a DeepSpeed file. */
static const char* const config =
    "{\"penstock\": {\"max_pinned_bytes\": \"16MiB\", \"ram_bytes\": 0}}";

/* Every function returns a status; the sentence for it belongs to this thread. */
static void check(int status, const char* what) {
  if (status != PENSTOCK_OK) {
    fprintf(stderr, "swap_tensors: %s: %s: %s\n", what, penstock_status_name(status),
            penstock_last_error());
    exit(1);
  }
}

static void put_layers(penstock_engine* engine, char names[LAYERS][16]) {
  const uint64_t shape[] = {BYTES};
  penstock_tensor_info info = {.struct_size = sizeof info, .shape = shape, .dimensions = 1};
  unsigned char* content = malloc(BYTES);
  if (content == NULL) {
    fprintf(stderr, "swap_tensors: no memory\n");
    exit(1);
  }
  for (int i = 0; i < LAYERS; ++i) {
    snprintf(names[i], sizeof names[i], "layer.%d", i);
    memset(content, i, BYTES);
    check(penstock_declare(engine, names[i], &info), "declare");
    check(penstock_put(engine, names[i], content, BYTES), "put"); /* `content` is ours again */
  }
  free(content);
}

/* The engine reads the next layers while this one is in use. */
static unsigned long long sum(penstock_engine* engine, char names[LAYERS][16]) {
  const char* order[LAYERS];
  unsigned long long total = 0;
  for (int i = 0; i < LAYERS; ++i) {
    order[i] = names[i];
  }
  check(penstock_prefetch(engine, order, LAYERS), "prefetch");
  for (int i = 0; i < LAYERS; ++i) {
    penstock_lease* lease = NULL;
    void* data = NULL;
    size_t bytes = 0;
    check(penstock_get(engine, names[i], PENSTOCK_READ, &lease), "get");
    check(penstock_lease_memory(lease, &data, &bytes), "memory");
    for (size_t byte = 0; byte < bytes; ++byte) {
      total += ((const unsigned char*)data)[byte];
    }
    check(penstock_release(lease), "release");
  }
  return total;
}

/* A change counts when it is committed; commit_async returns before it is written. */
static void update(penstock_engine* engine, const char* name) {
  penstock_lease* lease = NULL;
  penstock_ticket* ticket = NULL;
  void* data = NULL;
  size_t bytes = 0;
  check(penstock_get(engine, name, PENSTOCK_UPDATE, &lease), "get");
  check(penstock_lease_memory(lease, &data, &bytes), "memory");
  memset(data, 100, bytes);
  check(penstock_commit_async(engine, lease, &ticket), "commit");
  check(penstock_release(lease), "release");
  check(penstock_ticket_wait(ticket, -1), "wait");
  check(penstock_ticket_drop(ticket), "drop");
}

int main(int argc, char** argv) {
  const char* const paths[] = {argc > 1 ? argv[1] : "."};
  penstock_engine_options options = {
      .struct_size = sizeof options, .config_json = config, .paths = paths, .path_count = 1};
  penstock_engine* engine = NULL;
  char names[LAYERS][16];
  check(penstock_open(&options, &engine), "open");
  put_layers(engine, names);
  const unsigned long long before = sum(engine, names);
  update(engine, names[0]);
  printf("sum %llu, after the update %llu\n", before, sum(engine, names));

  /* An error leaves the engine and the last good content as they are. */
  if (penstock_put(engine, names[0], "abc", 3) == PENSTOCK_ERROR_WRONG_SIZE) {
    printf("refused: %s\n", penstock_last_error());
  }
  check(penstock_close(engine), "close");
  return 0;
}
