(** Values out of JSON. All of these raise {!Json.Wrong} for what is not of the type. *)

type 'a t = Json.t -> 'a

val int64 : int64 t
val double : float t
val string : string t
val boolean : bool t
val unit : unit t
val array : 'a t -> 'a list t
val option : 'a t -> 'a option t
val pair : 'a t -> 'b t -> ('a * 'b) t

val dict : (string -> 'k) -> 'v t -> ('k * 'v) list t
(** In the order of the text. Of several values of one key the last counts. *)

val text_key : string -> string
val number_key : string -> int64
val obj : (string * Json.t) list t

val field : (string * Json.t) list -> string -> 'a t -> 'a
(** A field of an object by its name. *)

val optional : (string * Json.t) list -> string -> 'a t -> 'a
(** One that may be left out: null is read then. *)

val case : Json.t -> string * Json.t
(** The name of a variant's case, and its value: null without one. *)

val value : 'a t -> 'a t
(** The value of a case. *)

val unknown_case : string -> 'a
