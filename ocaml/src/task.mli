(** Which task a program works for. *)

val fresh : unit -> string
(** A fresh id. *)

module Make (Io : S.IO) : S.TASK with type 'a io = 'a Io.t
