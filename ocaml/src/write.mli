(** Values as JSON. All of these raise {!Json.Wrong} for what JSON cannot say: numbers that are not finite,
    texts that are not UTF-8, keys that come twice. *)

type 'a t = 'a -> Json.t

val int64 : int64 t
val double : float t
val string : string t
val boolean : bool t
val unit : unit t
val array : 'a t -> 'a list t
val option : 'a t -> 'a option t
val pair : 'a t -> 'b t -> ('a * 'b) t
val dict : ('k -> string) -> 'v t -> ('k * 'v) list t
val text_key : string -> string
val number_key : int64 -> string
val field : string -> 'a t -> 'a -> string * Json.t

val without_null : (string * Json.t) list -> (string * Json.t) list

val obj : (string * Json.t) list -> Json.t
(** Fields that are null are left out. *)

val case : string -> Json.t
(** A case of a variant that has no value. *)

val case_of : string -> 'a t -> 'a -> Json.t
