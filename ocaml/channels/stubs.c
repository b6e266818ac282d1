/* A process with two descriptors of its own, a descriptor out of a Unix socket, and probes of a silent line: the
   module Unix has none of them. */

#include <caml/alloc.h>
#include <caml/memory.h>
#include <caml/mlvalues.h>
#include <caml/signals.h>
#include <caml/unixsupport.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

extern char **environ;

enum { ABOVE = 10, LINE = 3, MOST_WORDS = 8 };

/* [sapwood_spawn words talk line]: standard input and output are [talk], descriptor 3 is [line]. */
CAMLprim value sapwood_spawn(value words, value talk, value line)
{
  CAMLparam3(words, talk, line);
  char *argv[MOST_WORDS + 1];
  mlsize_t count = Wosize_val(words), each;
  pid_t pid = 0;
  sigset_t none;
  posix_spawnattr_t how;
  posix_spawn_file_actions_t acts;
  if (count == 0 || count > MOST_WORDS) unix_error(E2BIG, "spawn", Nothing);
  /* Copies above all that the new process gets: none of these is overwritten before it is used. */
  int talk_ = fcntl(Int_val(talk), F_DUPFD_CLOEXEC, ABOVE);
  if (talk_ < 0) uerror("spawn", Nothing);
  int line_ = fcntl(Int_val(line), F_DUPFD_CLOEXEC, ABOVE);
  if (line_ < 0) {
    int error = errno;
    close(talk_);
    unix_error(error, "spawn", Nothing);
  }
  for (each = 0; each < count; each++) argv[each] = (char *)String_val(Field(words, each));
  argv[count] = NULL;
  sigemptyset(&none);
  posix_spawnattr_init(&how);
  posix_spawnattr_setsigmask(&how, &none);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK);
  posix_spawn_file_actions_init(&acts);
  posix_spawn_file_actions_adddup2(&acts, talk_, 0);
  posix_spawn_file_actions_adddup2(&acts, talk_, 1);
  posix_spawn_file_actions_adddup2(&acts, line_, LINE);
  int error = posix_spawnp(&pid, argv[0], &acts, &how, argv, environ);
  posix_spawn_file_actions_destroy(&acts);
  posix_spawnattr_destroy(&how);
  close(talk_);
  close(line_);
  if (error != 0) unix_error(error, "spawn", Field(words, 0));
  CAMLreturn(Val_int(pid));
}

/* One byte and a descriptor: (the byte, or -1 at the end; the descriptor, or -1 where none came). */
CAMLprim value sapwood_receive(value socket)
{
  CAMLparam1(socket);
  CAMLlocal1(pair);
  char byte = 0;
  union {
    struct cmsghdr align;
    char space[CMSG_SPACE(sizeof(int))];
  } control;
  struct iovec part = {.iov_base = &byte, .iov_len = 1};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
  int line = Int_val(socket), found = -1;
  caml_enter_blocking_section();
  ssize_t size = recvmsg(line, &message, MSG_CMSG_CLOEXEC);
  caml_leave_blocking_section();
  if (size < 0) uerror("recvmsg", Nothing);
  struct cmsghdr *head = CMSG_FIRSTHDR(&message);
  if (head != NULL && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
      head->cmsg_len == CMSG_LEN(sizeof(int)))
    memcpy(&found, CMSG_DATA(head), sizeof found);
  pair = caml_alloc_tuple(2);
  Store_field(pair, 0, Val_int(size == 1 ? (unsigned char)byte : -1));
  Store_field(pair, 1, Val_int(found));
  CAMLreturn(pair);
}

/* Half a minute of silence, then every ten seconds; three probes without an answer end the connection. */
CAMLprim value sapwood_probe(value socket)
{
  int line = Int_val(socket), on = 1, after = 30, every = 10, most = 3;
  setsockopt(line, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(line, IPPROTO_TCP, TCP_KEEPIDLE, &after, sizeof after);
  setsockopt(line, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
  setsockopt(line, IPPROTO_TCP, TCP_KEEPCNT, &most, sizeof most);
  return Val_unit;
}
