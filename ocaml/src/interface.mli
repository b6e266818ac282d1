(** A version of an interface that a program serves: its methods by name. *)

type 'f method_ = { name : string; about : string; run : 'f }
type 'f t = { name : string; version : string; methods : 'f method_ list }

val serves : 'f t -> string -> bool
(** Is this the version asked for, or a later one that only grew? 1.4 serves 1.2, and 2.0 does not. *)

type 'f found = Help of Json.t | Method of 'f

val find : 'f t list -> Call.t -> 'f found
(** The method that a call asks for; [help] tells them all. Raises {!Errors.Service} that names what is served. *)
